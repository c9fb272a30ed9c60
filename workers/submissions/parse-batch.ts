import { isObject } from '../shared/json-object.ts';
import {
  type Draft,
  draftOf,
  isDraft,
  parseBody,
  type Refusal,
  type SubmissionCheck,
  type SubmittedBody,
} from './parse-submission.ts';
import { misspeltOption } from './submission-options.ts';

export type SubmittedBatch = Omit<SubmittedBody, 'id' | 'hasKey'>;

type KeyedDraft = Draft & { key: string | undefined };

/** The submissions in the order of the batch, or all wrong ones by their positions, or the refusal of the body. */
export type ParsedBatch = { drafts: KeyedDraft[] } | { wrong: (Refusal & { index: number })[] } | Refusal;

const MAX_LENGTH = 1000;

export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/** Parses a body of `POST /tasks/batch`. If `check` returns `Other` for a submission, returns that. */
export function parseBatch<Other = never>(
  { bytes, ...submitted }: SubmittedBatch,
  check?: SubmissionCheck<Other>,
): ParsedBatch | Other {
  const body = parseBody(bytes);
  if ('error' in body) return body;
  const { tasks, ...others } = body.fields;
  if (!Array.isArray(tasks) || tasks.length === 0 || tasks.length > MAX_LENGTH) return { error: 'tasksRequired' };
  const misplaced = misspeltOption(others, new Set());
  if (misplaced !== undefined) {
    const field = { path: `/${misplaced.name}`, detail: `belongs in each task, as ${misplaced.meant}` };
    return { error: 'unknownOption', field };
  }
  const drafts: KeyedDraft[] = [];
  const wrong: (Refusal & { index: number })[] = [];
  for (const [index, task] of tasks.entries()) {
    const { idempotency_key: key, ...fields } = isObject(task) ? task : {};
    const draft = isKey(key)
      ? draftOf(fields, { ...submitted, hasKey: key !== undefined, isInBatch: true }, check)
      : INVALID_KEY;
    if (isDraft(draft)) drafts.push({ ...draft, key: key as string | undefined });
    else if (isRefusal(draft)) wrong.push({ index, ...draft });
    else return draft;
  }
  return wrong.length > 0 ? { wrong } : { drafts };
}

const INVALID_KEY: Refusal = { error: 'invalidIdempotencyKey' };

function isRefusal(value: unknown): value is Refusal {
  return typeof value === 'object' && value !== null && 'error' in value;
}

function isKey(value: unknown): value is string | undefined {
  return value === undefined || (typeof value === 'string' && IDEMPOTENCY_KEY.test(value));
}

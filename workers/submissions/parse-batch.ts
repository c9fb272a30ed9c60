import { isObject } from '../shared/json-object.ts';
import { type Draft, draftOf, isDraft, parseBody, type Refusal, type SubmissionCheck } from './parse-submission.ts';

/** A body of `POST /tasks/batch`. */
export interface SubmittedBatch {
  bytes: Uint8Array<ArrayBuffer>;
  /** Time of the submission in milliseconds since the epoch. */
  now: number;
}

/** The submissions in the order of the batch, or all wrong ones, or the refusal of the body. */
export type ParsedBatch = { drafts: (Draft & { key: string | undefined })[] } | { wrong: WrongSubmission[] } | Refusal;

export interface WrongSubmission extends Refusal {
  /** Position in the batch. */
  index: number;
}

const MAX_LENGTH = 1000;

export const IDEMPOTENCY_KEY = /^[\x21-\x7e]{1,255}$/;

/** Parses a body of `POST /tasks/batch`. If `check` returns `Other` for a submission, returns that. */
export function parseBatch<Other = never>(
  { bytes, now }: SubmittedBatch,
  check?: SubmissionCheck<Other>,
): ParsedBatch | Other {
  const body = parseBody(bytes);
  if ('error' in body) return body;
  const { tasks } = body.fields;
  if (!Array.isArray(tasks) || tasks.length === 0 || tasks.length > MAX_LENGTH) return { error: 'tasksRequired' };
  const drafts: (Draft & { key: string | undefined })[] = [];
  const wrong: WrongSubmission[] = [];
  for (const [index, task] of tasks.entries()) {
    const { idempotency_key: key, ...fields } = isObject(task) ? task : {};
    const draft = isKey(key) ? draftOf(fields, { now, hasKey: key !== undefined }, check) : INVALID_KEY;
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

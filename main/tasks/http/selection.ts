import type { IncomingMessage } from 'node:http';
import type { TaskFilter } from '../../../db/task-store.ts';
import { ACTION_LENGTH } from '../../../workers/submissions/parse-submission.ts';
import { HttpError } from '../../http/errors.ts';
import { readJsonObject } from '../../http/request-body.ts';
import { isListed, LISTED } from './queue-router.ts';
import type { RouterOptions } from './routing.ts';

const MAX_IDS = 1000;
/** Maximum size in bytes of a body that selects tasks. A list of 1000 UUIDs takes about 40 kB. */
const MAX_BYTES = 64 * 1024;

export function readSelectionBody(request: IncomingMessage, { bodies: { budget }, turns }: RouterOptions) {
  return readJsonObject(request, { limit: MAX_BYTES, budget }, turns);
}

export function isIds(value: unknown): value is string[] {
  if (!Array.isArray(value) || value.length === 0 || value.length > MAX_IDS) return false;
  return value.every((id) => typeof id === 'string');
}

const FILTERS: readonly string[] = ['action', 'state', 'limit_key', 'schedule'];

/** Returns the ids, or the filter, that the body of a bulk cancellation selects. @throws {HttpError} */
export function cancelSelection(body: Record<string, unknown>): readonly string[] | Omit<TaskFilter, 'until'> {
  const names = Object.keys(body);
  if (names.length === 1 && isIds(body.ids)) return body.ids;
  if (names.length === 1 && body.all === true) return {};
  const isFilter = names.every((name) => FILTERS.includes(name) && typeof body[name] === 'string');
  const { action, state, limit_key: limitKey, schedule } = body as { [name: string]: string | undefined };
  const [listed] = isListed(state) ? LISTED[state] : [];
  if (names.length === 0 || !isFilter || (state !== undefined && listed === undefined))
    throw new HttpError('cancelSelectionRequired');
  // The queue stores the start of a longer action.
  if (action !== undefined && action.length > ACTION_LENGTH) throw new HttpError('actionTooLong');
  return { action, limitKey, schedule, state: listed };
}

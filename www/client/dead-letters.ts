import type { Abortable, HttpClient } from './http-client.ts';
import type { DeadLetter } from './task-state.ts';

/** Time limit of a request that may change all tasks. */
const BULK_MS = 60_000;
/** Maximum number of ids that the service accepts in one request. */
const MAX_IDS = 1_000;

/** A task must match all fields that are set. Times are Unix seconds. */
export interface TaskFilter {
  action?: string;
  /** Part of the action, the data, the output, or the reason of the last failed attempt. */
  text?: string;
  /** Start of the id. */
  id?: string;
  limit_key?: string;
  schedule?: string;
  reason?: string;
  since?: number;
  until?: number;
}

/** Dead letters to change: by id, all, or the ones that match all of the other fields. */
export type LetterSelection = { ids: string[] } | { all: true } | (TaskFilter & { cause?: string });

/** Dead letters of an action whose reasons differ only in numbers, ids and quoted parts. Times are Unix seconds. */
export interface Cause {
  cause: string;
  action: string | null;
  count: number;
  /** Number of permanent failures. */
  permanent: number;
  first_at: number;
  last_at: number;
  /** Number of failures in each of the last 30 minutes, oldest first. */
  minutes: number[];
  /** Up to ten. */
  reasons: { reason: string; count: number }[];
}

/** `remaining` is the number of selected tasks left unchanged, for example because the queue is full. */
export interface BulkResult {
  count: number;
  remaining: number;
}

interface LetterQuery {
  action?: string;
  reason?: string;
  cause?: string;
  before?: string;
}

export type DeadLetters = ReturnType<typeof deadLetters>;

/** Requests about failed tasks. */
export function deadLetters(http: HttpClient) {
  const pathOf = (id: string) => `dead-letters/${encodeURIComponent(id)}`;
  return {
    /** Requests the newest 100. @param query `before` is the id of a dead letter; only older ones are listed */
    async list({ signal, ...query }: Abortable & LetterQuery = {}) {
      const { dead_letters } = await http.request<{ dead_letters: DeadLetter[] }>('dead-letters', { query, signal });
      return dead_letters;
    },
    /** Counts the causes of the matching dead letters, most frequent first. */
    reasons: ({ signal, ...query }: Abortable & TaskFilter = {}) =>
      http.request<{ causes: Cause[]; total: number }>('dead-letters/reasons', { query, signal }),
    /** Puts a dead letter back into the queue. */
    async redrive(id: string, options?: Abortable): Promise<void> {
      await http.request(`${pathOf(id)}/retry`, { ...options, method: 'POST' });
    },
    purge: (id: string, options?: Abortable) => http.request<void>(pathOf(id), { ...options, method: 'DELETE' }),
    /**
     * Redrives the selected dead letters. More than 1000 ids take several requests, of which earlier ones may have
     * succeeded if it throws.
     *
     * @param selection `per_second` tasks become due per second, at least 0.01 for each 1000 ids, and are scheduled until
     *   then. By default, all are due at once
     */
    redriveAll: (selection: LetterSelection & { per_second?: number }, options?: Abortable) =>
      changeAll(http, 'dead-letters/redrive', selection, options),
    /** Deletes the selected dead letters, in the same way as `redriveAll`. */
    purgeAll: (selection: LetterSelection, options?: Abortable) =>
      changeAll(http, 'dead-letters/purge', selection, options),
  };
}

/** Changes the selected tasks, with requests of up to {@link MAX_IDS} ids, which share `per_second`. */
export async function changeAll(
  http: HttpClient,
  path: string,
  selection: object,
  options?: Abortable,
): Promise<BulkResult> {
  const { ids, per_second }: { ids?: string[]; per_second?: number } = selection;
  const requests = Math.max(1, Math.ceil((ids?.length ?? 0) / MAX_IDS));
  // Of equal size, so that they end at the same time although each has the same part of the pace.
  const size = Math.ceil((ids?.length ?? 0) / requests);
  const pace = per_second && per_second / requests;
  const sum = { count: 0, remaining: 0 };
  for (let index = 0; index < requests; index++) {
    const body = { ...selection, ids: ids?.slice(index * size, (index + 1) * size), per_second: pace };
    const request = { ...options, method: 'POST', body, timeoutMs: BULK_MS } as const;
    const { count, remaining } = await http.request<BulkResult>(path, request);
    sum.count += count;
    sum.remaining += remaining;
  }
  return sum;
}

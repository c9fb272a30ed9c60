import type { Abortable, HttpClient } from './http-client.ts';
import type { DeadLetter } from './task-state.ts';

/** Time limit of a request that may change all dead letters. */
const BULK_MS = 60_000;

/** A task must match all fields that are set. Times are Unix seconds. */
export interface TaskFilter {
  action?: string;
  /** Part of the data, or of the reason of the last failed attempt. */
  text?: string;
  /** Start of the id. */
  id?: string;
  limit_key?: string;
  schedule?: string;
  reason?: string;
  since?: number;
  until?: number;
}

/** Dead letters to change: up to 1000 by id, all, or the ones that match all of the other fields. */
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
  /** Up to ten. */
  reasons: { reason: string; count: number }[];
}

/** `remaining` is the number of selected dead letters left unchanged, for example because the queue is full. */
export interface BulkResult {
  count: number;
  remaining: number;
}

export type DeadLetters = ReturnType<typeof deadLetters>;

/** Requests about failed tasks. */
export function deadLetters(http: HttpClient) {
  const pathOf = (id: string) => `dead-letters/${encodeURIComponent(id)}`;
  return {
    /** Requests the newest 100. @param query `before` is the id of a dead letter; only older ones are listed */
    async list({
      signal,
      ...query
    }: Abortable & { action?: string; reason?: string; cause?: string; before?: string } = {}): Promise<DeadLetter[]> {
      const { dead_letters } = await http.request<{ dead_letters: DeadLetter[] }>('dead-letters', { query, signal });
      return dead_letters;
    },

    /** Counts the causes of the matching dead letters, most frequent first. */
    reasons({ signal, ...query }: Abortable & TaskFilter = {}): Promise<{ causes: Cause[]; total: number }> {
      return http.request('dead-letters/reasons', { query, signal });
    },

    /** Puts a dead letter back into the queue. */
    async redrive(id: string, options?: Abortable): Promise<void> {
      await http.request(`${pathOf(id)}/retry`, { ...options, method: 'POST' });
    },

    async purge(id: string, options?: Abortable): Promise<void> {
      await http.request(pathOf(id), { ...options, method: 'DELETE' });
    },

    redriveAll(selection: LetterSelection, options?: Abortable): Promise<BulkResult> {
      return http.request('dead-letters/redrive', { ...options, method: 'POST', body: selection, timeoutMs: BULK_MS });
    },

    purgeAll(selection: LetterSelection, options?: Abortable): Promise<BulkResult> {
      return http.request('dead-letters/purge', { ...options, method: 'POST', body: selection, timeoutMs: BULK_MS });
    },
  };
}

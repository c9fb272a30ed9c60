import type { BulkResult, LetterSelection, ReasonGroup } from '../client/dead-letters.ts';
import { request } from './tasks-api.ts';

/** Maximum number of ids that the service accepts in one request. */
const MAX_IDS = 1_000;

/** Requests the number of dead letters for each reason, most frequent first. @throws {Refused | Unreachable} */
export async function readReasons(): Promise<ReasonGroup[]> {
  const { reasons } = await request('/dead-letters/reasons');
  return reasons;
}

/** Puts dead letters back into the queue. @throws {Refused | Unreachable} */
export function redriveLetters(selection: LetterSelection): Promise<BulkResult> {
  return change('redrive', selection);
}

/** Deletes dead letters. @throws {Refused | Unreachable} */
export function purgeLetters(selection: LetterSelection): Promise<BulkResult> {
  return change('purge', selection);
}

/** Returns whether a dead letter belongs to a selection. */
export function contains(selection: LetterSelection, { id, reason }: { id: string; reason?: string }): boolean {
  if ('ids' in selection) return selection.ids.includes(id);
  return 'all' in selection || selection.reason === reason;
}

async function change(operation: 'redrive' | 'purge', selection: LetterSelection): Promise<BulkResult> {
  const sum = { count: 0, remaining: 0 };
  for (const part of parts(selection)) {
    const options = { method: 'POST', body: JSON.stringify(part) };
    const { count, remaining }: BulkResult = await request(`/dead-letters/${operation}`, options, 60_000);
    sum.count += count;
    sum.remaining += remaining;
  }
  return sum;
}

function parts(selection: LetterSelection): LetterSelection[] {
  if (!('ids' in selection)) return [selection];
  const { ids } = selection;
  return Array.from({ length: Math.ceil(ids.length / MAX_IDS) }, (_, index) => ({
    ids: ids.slice(index * MAX_IDS, (index + 1) * MAX_IDS),
  }));
}

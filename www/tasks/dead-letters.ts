import type { BulkResult, LetterSelection } from '../client/dead-letters.ts';
import { deadLetters } from './service.ts';

/** Maximum number of ids that the service accepts in one request. */
const MAX_IDS = 1_000;

/** Puts dead letters back into the queue. @throws {ServiceError | UnreachableError} */
export function redriveLetters(selection: LetterSelection): Promise<BulkResult> {
  return change(deadLetters.redriveAll, selection);
}

/** Deletes dead letters. @throws {ServiceError | UnreachableError} */
export function purgeLetters(selection: LetterSelection): Promise<BulkResult> {
  return change(deadLetters.purgeAll, selection);
}

/** Returns whether a dead letter belongs to a selection. */
export function contains(selection: LetterSelection, letter: { id: string; action: string; cause?: string }): boolean {
  if ('ids' in selection) return selection.ids.includes(letter.id);
  if ('all' in selection) return true;
  const { action = letter.action, cause = letter.cause } = selection;
  return action === letter.action && cause === letter.cause;
}

async function change(
  send: (selection: LetterSelection) => Promise<BulkResult>,
  selection: LetterSelection,
): Promise<BulkResult> {
  const sum = { count: 0, remaining: 0 };
  for (const part of parts(selection)) {
    const { count, remaining } = await send(part);
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

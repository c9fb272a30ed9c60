import { type Found, LISTING_SIZE, type Position, type RowParts, type SearchFilter } from '../../db/task-rows.ts';
import { type BulkResult, deadLetterBounds, type Pace, type TaskStore, type TaskSubject } from '../../db/task-store.ts';
import { select } from '../../main/tasks/search.ts';
import { afterTest } from '../support/cleanup.ts';

export function boundDeadLetters(bounds: Partial<typeof deadLetterBounds>): void {
  const usual = { ...deadLetterBounds };
  Object.assign(deadLetterBounds, bounds);
  afterTest(() => Object.assign(deadLetterBounds, usual));
}

export function searchIn(store: TaskStore, filter: SearchFilter, limit = 10_000): Promise<Found[]> {
  return select(store.reads, filter, async () => {}, { limit });
}

export async function listIn<Part extends keyof RowParts = 'whole'>(
  rows: TaskStore['reads']['rows'],
  { before, ...filter }: SearchFilter & { before?: Position | undefined } = {},
  part = 'whole' as Part,
): Promise<readonly RowParts[Part][]> {
  const found = await select(rows, filter, async () => {}, { limit: LISTING_SIZE, after: before });
  const ids = found.map(({ id }) => id);
  return rows.read(ids, part);
}

export type LetterSelection = { ids: readonly string[] } | { reason: string } | { all: true };

async function lettersIn(store: TaskStore, selection: LetterSelection): Promise<number[]> {
  const { ids, reason } = { ids: undefined, reason: undefined, ...selection };
  const letters = await searchIn(store, { state: 'failed', ids, reasons: reason === undefined ? undefined : [reason] });
  return letters.map(({ arrival }) => arrival).reverse();
}

/** Redrives dead letters, oldest first. */
export async function redriveIn(
  store: TaskStore,
  selection: LetterSelection,
  onRequeued?: (tasks: readonly TaskSubject[]) => void,
  pace?: Pace,
): Promise<BulkResult> {
  return store.redrive(await lettersIn(store, selection), onRequeued, pace);
}

export async function purgeIn(store: TaskStore, selection: LetterSelection): Promise<BulkResult> {
  return store.purge(await lettersIn(store, selection));
}

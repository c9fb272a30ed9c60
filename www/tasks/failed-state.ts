import { computed, effect, signal, untracked } from '@preact/signals';
import type { LetterSelection, ReasonGroup } from '../client/dead-letters.ts';
import { model } from './board.ts';
import type { BoardTask } from './board-task.ts';
import { contains } from './dead-letters.ts';
import { holdsText } from './find-text.ts';
import { view } from './navigation.ts';
import { deadLetters } from './service.ts';
import { begin, isTaken } from './undoable.ts';

const REASONS_INTERVAL_MS = 2_000;

/** Groups of the failed tasks by reason. */
export const groups = signal<readonly ReasonGroup[]>([]);
/** Chosen reason, or undefined for all reasons. */
export const chosen = signal<string>();
/** Error of the last request for the reasons. */
export const reasonsError = signal<Error>();

/** Either the ids of selected tasks, or all tasks with the chosen reason, including tasks that are not listed. */
export const selection = signal<{ ids: ReadonlyMap<string, () => void>; isAll: boolean }>({
  ids: new Map(),
  isAll: false,
});

const sum = (counted: readonly ReasonGroup[]) => counted.reduce((total, { count }) => total + count, 0);
const matchingGroups = computed(() =>
  groups.value.filter(({ reason }) => chosen.value === undefined || reason === chosen.value),
);
export const total = computed(() => sum(groups.value));
/** Number of failed tasks with the chosen reason. */
export const matching = computed(() => sum(matchingGroups.value));
export const matchingPermanent = computed(() => sum(matchingGroups.value.filter(({ permanent }) => permanent)));

/** Whether the list of failed tasks is shown. */
const isShown = computed(() => view.value.page === 'tasks' && view.value.state === 'failed');

let counted: number | undefined;
let readAt = Number.NEGATIVE_INFINITY;

/** Listed failed tasks that hold the text of the search field, without tasks about to be redriven or purged. */
export function shownTasks(): BoardTask[] {
  const { q } = view.value;
  return listedTasks().filter(({ id, action, reason, payload }) => holdsText([id, action, reason, payload], q));
}

export function listedTasks(): BoardTask[] {
  return model.tasks('failed').filter((task) => !isTaken(task));
}

export function choose(reason: string | undefined): void {
  clearSelection();
  chosen.value = reason;
}

export function clearSelection(): void {
  for (const release of selection.peek().ids.values()) release();
  selection.value = { ids: new Map(), isAll: false };
}

/** Selects exactly these tasks. */
export function selectOnly(ids: readonly string[]): void {
  const kept = new Map(ids.map((id) => [id, model.keep(id)]));
  clearSelection();
  selection.value = { ids: kept, isAll: false };
}

export function selectMatching(): void {
  clearSelection();
  selection.value = { ids: new Map(), isAll: true };
}

export function isSelected(id: string): boolean {
  return selection.value.isAll || selection.value.ids.has(id);
}

/** Ids of the selected tasks, of which the shown ones count if all matching ones are selected. */
export function selectedIds(): string[] {
  return selection.value.isAll ? shownTasks().map(({ id }) => id) : [...selection.value.ids.keys()];
}

/** Redrives or purges the selected tasks. */
export function beginSelected(verb: 'redrive' | 'purge'): void {
  const { isAll, ids } = selection.value;
  const reason = chosen.value;
  const letters: LetterSelection = isAll
    ? reason === undefined
      ? { all: true }
      : { reason }
    : { ids: [...ids.keys()] };
  const permanent = isAll
    ? matchingPermanent.value
    : [...ids.keys()].filter((id) => model.get(id)?.permanent === true).length;
  const count = isAll ? matching.value : ids.size;
  const onEnd = (isDone: boolean) => {
    clearSelection();
    finish(letters, isDone);
  };
  begin({ verb, selection: letters, count, permanent, onStart: clearSelection, onEnd });
}

/** Redrives one task. */
export function redrive({ id, permanent }: { id: string; permanent?: boolean | undefined }, onSent = () => {}): void {
  const letters = { ids: [id] };
  const onEnd = (isDone: boolean) => {
    finish(letters, isDone);
    onSent();
  };
  begin({ verb: 'redrive', selection: letters, count: 1, permanent: permanent ? 1 : 0, onEnd });
}

/** Removes dead letters that were redriven or purged, and requests the failed tasks and their reasons. */
function finish(letters: LetterSelection, isDone: boolean): void {
  if (isDone) model.forget((task) => task.state === 'failed' && contains(letters, task));
  if (!isShown.peek()) return;
  model.refresh();
  void readReasons();
}

async function readReasons(): Promise<void> {
  readAt = performance.now();
  counted = model.count('failed');
  try {
    const { reasons } = await deadLetters.reasons();
    groups.value = reasons;
    reasonsError.value = undefined;
    const isGone = chosen.peek() !== undefined && !reasons.some(({ reason }) => reason === chosen.peek());
    if (isGone) choose(undefined);
  } catch (error) {
    reasonsError.value = error as Error;
  }
}

// Reads the reasons when the list is opened, when the number of failed tasks changes, and after missed events.
effect(() => {
  if (isShown.value) untracked(() => void readReasons());
});
effect(() => {
  const count = model.count('failed');
  model.version.value;
  const isDue = performance.now() - readAt >= REASONS_INTERVAL_MS;
  if (isShown.value && isDue && count !== counted) untracked(() => void readReasons());
});
model.onGap(() => {
  if (isShown.peek()) void readReasons();
});

// A selection of all matching tasks ends with a new filter, because the service cannot filter by text or action.
const filter = computed(() => `${view.value.q}\n${view.value.action}`);
effect(() => {
  filter.value;
  if (selection.peek().isAll) clearSelection();
});

// Tasks that are no longer failed are no longer selected.
effect(() => {
  model.version.value;
  const { ids } = selection.peek();
  const left = [...ids.keys()].filter((id) => model.get(id)?.state === 'failed');
  if (left.length < ids.size) selectOnly(left);
});

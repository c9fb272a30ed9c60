import { computed, effect, signal, untracked } from '@preact/signals';
import type { Cause, LetterSelection } from '../client/dead-letters.ts';
import { model } from './board.ts';
import type { BoardTask } from './board-task.ts';
import { contains } from './dead-letters.ts';
import { holdsText } from './find-text.ts';
import { changeView, view } from './navigation.ts';
import { deadLetters } from './service.ts';
import { begin, isTaken } from './undoable.ts';

const CAUSES_INTERVAL_MS = 2_000;
/** Maximum number of causes in a response. */
const MAX_CAUSES = 100;

/** Most frequent causes of the failed tasks. */
export const causes = signal<readonly Cause[]>([]);
/** Number of all failed tasks. */
export const total = signal(0);
/** Error of the last request for the causes. */
export const causesError = signal<Error>();

/** Either the ids of selected tasks, or all tasks with the chosen action and cause, including tasks that are not listed. */
export const selection = signal<{ ids: ReadonlyMap<string, () => void>; isAll: boolean }>({
  ids: new Map(),
  isAll: false,
});

const sum = (counts: number[]) => counts.reduce((total, count) => total + count, 0);
const matchingCauses = computed(() => {
  const { action, cause } = view.value;
  return causes.value.filter((each) => (action || each.action) === each.action && (cause || each.cause) === each.cause);
});
/** Number of failed tasks with the chosen action and cause. Without these, causes that are not listed count, too. */
export const matching = computed(() => {
  const { action, cause } = view.value;
  return action === '' && cause === '' ? total.value : sum(matchingCauses.value.map(({ count }) => count));
});
export const matchingPermanent = computed(() => sum(matchingCauses.value.map(({ permanent }) => permanent)));

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

/** Lists the failed tasks of a cause, or all of them. */
export function choose({ action, cause }: Pick<Cause, 'action' | 'cause'> = { action: null, cause: '' }): void {
  clearSelection();
  changeView({ action: action ?? '', cause });
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
  const { action, cause } = view.value;
  const filter = { ...(action !== '' && { action }), ...(cause !== '' && { cause }) };
  const open = action === '' && cause === '' ? { all: true as const } : filter;
  const letters: LetterSelection = isAll ? open : { ids: [...ids.keys()] };
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

/** Removes dead letters that were redriven or purged, and requests the failed tasks and their causes. */
function finish(letters: LetterSelection, isDone: boolean): void {
  if (isDone) model.forget((task) => task.state === 'failed' && contains(letters, task));
  if (!isShown.peek()) return;
  model.refresh();
  void readCauses();
}

async function readCauses(): Promise<void> {
  readAt = performance.now();
  counted = model.count('failed');
  try {
    const found = await deadLetters.reasons();
    causes.value = found.causes;
    total.value = found.total;
    causesError.value = undefined;
    const isGone = view.peek().cause !== '' && found.causes.length < MAX_CAUSES && matchingCauses.peek().length === 0;
    if (isGone) choose();
  } catch (error) {
    causesError.value = error as Error;
  }
}

// Reads the causes when the list is opened, when the number of failed tasks changes, and after missed events.
effect(() => {
  if (isShown.value) untracked(() => void readCauses());
});
effect(() => {
  const count = model.count('failed');
  model.version.value;
  const isDue = performance.now() - readAt >= CAUSES_INTERVAL_MS;
  if (isShown.value && isDue && count !== counted) untracked(() => void readCauses());
});
model.onGap(() => {
  if (isShown.peek()) void readCauses();
});

// A selection of all matching tasks ends with a new filter.
const filter = computed(() => [view.value.q, view.value.action, view.value.cause].join('\n'));
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

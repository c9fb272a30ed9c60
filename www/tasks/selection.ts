import { computed, effect, signal } from '@preact/signals';
import { filterOf } from './address.ts';
import { model } from './board.ts';
import { type BoardTask, isUnfinished } from './board-task.ts';
import { matchingPermanent, refreshCauses } from './causes.tsx';
import type { TaskList } from './model.ts';
import { view } from './navigation.ts';
import { begin, type Deed, isTaken } from './undoable.tsx';

/** Selected tasks of the list that is shown, or all that match its filter, including tasks that are not listed. */
export const selection = signal<{ ids: ReadonlyMap<string, () => void>; isAll: boolean }>({
  ids: new Map(),
  isAll: false,
});

/** Returns the changes that the list of a state offers for selected tasks. */
export function verbsOf(state: BoardTask['state']): readonly Deed['verb'][] {
  if (isUnfinished(state)) return ['cancel'];
  return state === 'failed' ? ['redrive', 'purge'] : [];
}

/** Whether the changes that the list of a state offers apply to a task. A list that stands still shows other tasks, too. */
export function isSelectable(id: string, state: BoardTask['state']): boolean {
  const task = model.get(id);
  return task !== undefined && (isUnfinished(state) ? isUnfinished(task.state) : task.state === state);
}

/** Selects exactly these tasks, or all that match. */
export function select(ids: readonly string[], isAll = false): void {
  const kept = new Map(ids.map((id) => [id, model.keep(id)]));
  for (const release of selection.peek().ids.values()) release();
  selection.value = { ids: kept, isAll };
}

/** Number of permanent failures among the selected tasks, or without a selection among all that match. */
export function selectedPermanent(): number {
  const { ids, isAll } = selection.value;
  if (isAll || ids.size === 0) return matchingPermanent.value;
  return [...ids.keys()].filter((id) => model.get(id)?.permanent === true).length;
}

/** Begins a change of the selected tasks, or without a selection of all that match. */
export function beginSelected(verb: Deed['verb'], list: TaskList): void {
  const { isAll, ids } = selection.peek();
  const permanent = verb === 'cancel' ? 0 : selectedPermanent();
  const onStart = () => select([]);
  if (!isAll && ids.size > 0) {
    const chosen = [...ids.keys()];
    start({ verb, selection: { ids: chosen }, ids: new Set(chosen), count: chosen.length, permanent, onStart });
    return;
  }
  const fields = { ...filterOf(list.filter), ...(verb === 'cancel' && { state: list.state }) };
  const matching = Object.keys(fields).length === 0 ? { all: true as const } : (fields as Deed['selection']);
  const left = model.tasks(list.state).filter((task) => !isTaken(task));
  const listed = new Set(left.map(({ id }) => id));
  const { count, isExact } = model.matching(list, listed.size);
  start({ verb, selection: matching, ids: listed, count, isLowerBound: !isExact, permanent, onStart });
}

/** Redrives one task. */
export function redrive({ id, permanent }: { id: string; permanent?: boolean | undefined }, onSent = () => {}): void {
  start(
    { verb: 'redrive', selection: { ids: [id] }, ids: new Set([id]), count: 1, permanent: permanent ? 1 : 0 },
    onSent,
  );
}

/** Begins a deed. After it, removes its tasks, and requests the list and the causes again. */
function start(deed: Deed, onSent = () => {}): void {
  const onEnd = (isDone: boolean) => {
    // Events may come later. A running task is listed until its handler has ended.
    const isGone = ({ id, state }: BoardTask) =>
      deed.ids.has(id) && state !== 'running' && verbsOf(state).includes(deed.verb);
    if (isDone) model.forget(isGone);
    onSent();
    model.refresh();
    refreshCauses();
  };
  void begin({ ...deed, onEnd });
}

// A selection ends with its list, and a selection of all that match also ends with the filter.
const list = computed(() => {
  const { state, cause, action } = view.value;
  // Failures of several actions may have the same cause.
  return [state, cause, cause && action].join('\n');
});
effect(() => {
  list.value;
  select([]);
});
const filter = computed(() => [view.value.q, view.value.action, view.value.last].join('\n'));
effect(() => {
  filter.value;
  if (selection.peek().isAll) select([]);
});

// A task is selected until it can no longer be.
effect(() => {
  model.version.value;
  const { state } = view.peek();
  const { ids } = selection.peek();
  const left = [...ids.keys()].filter((id) => isSelectable(id, state));
  if (left.length < ids.size) select(left);
});

import { part } from '../shared/dom.ts';
import type { View } from './address.ts';
import type { BoardTask } from './board-task.ts';
import { orderRows } from './row-order.ts';
import { COLUMNS } from './state-columns.ts';
import { type ListedState, TaskRow } from './task-row.ts';

/** Milliseconds after a mouse movement during which rows do not move. */
const POINTER_HOLD_MS = 1_500;

export interface Shown {
  tasks: readonly BoardTask[];
  state: ListedState;
  view: View;
  /** Returns a task that is no longer in `tasks` but still has a row. */
  find(id: string): BoardTask | undefined;
}

/** Rows do not move under the mouse pointer. The focused and the inspected row stay in the table. */
export class TaskTable {
  readonly #table = part(document, 'task-table', HTMLTableElement);
  readonly #body = part(document, 'task-rows', HTMLElement);
  readonly #rows = new Map<string, TaskRow>();
  #order: string[] = [];
  #state: ListedState | undefined;
  #shown: Shown | undefined;
  #still = false;
  #heldUntil = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param onOpen called with the id of the clicked task */
  constructor(onOpen: (id: string) => void) {
    this.#body.addEventListener('pointermove', ({ pointerType }) => {
      if (pointerType === 'mouse') this.#heldUntil = performance.now() + POINTER_HOLD_MS;
    });
    this.#body.addEventListener('click', (event) => {
      const id = (event.target as Element).closest<HTMLElement>('[data-row]')?.dataset.row;
      const opensElsewhere = event.ctrlKey || event.metaKey || event.shiftKey;
      if (id === undefined || opensElsewhere || getSelection()?.isCollapsed === false) return;
      event.preventDefault();
      onOpen(id);
    });
    setInterval(() => this.#age(), 200);
  }

  /** If true, no rows are added, moved or removed. */
  set still(still: boolean) {
    this.#still = still;
    if (!still) this.#render();
  }

  /** Number of listed tasks without a row. */
  get unseen(): number {
    return this.#shown?.tasks.filter(({ id }) => !this.#rows.has(id)).length ?? 0;
  }

  show(shown: Shown): void {
    if (shown.state !== this.#state || isOtherSelection(shown.view, this.#shown?.view)) this.#heldUntil = 0;
    this.#shown = shown;
    this.#render();
  }

  #render(): void {
    if (this.#shown === undefined) return;
    const { tasks, state, find, view } = this.#shown;
    const isNew = state !== this.#state;
    if (isNew) this.#startState(state);
    clearTimeout(this.#timer);
    const wait = this.#heldUntil - performance.now();
    if (!isNew && this.#order.length > 0 && (this.#still || wait > 0)) {
      if (!this.#still) this.#timer = setTimeout(() => this.#render(), wait);
    } else {
      const focused = document.activeElement?.closest<HTMLElement>('[data-row]')?.dataset.row;
      const isKept = (id: string) => id === view.task || id === focused;
      const listed = tasks.map(({ id }) => id);
      this.#place(isNew ? listed : orderRows(listed, this.#order, isKept));
    }
    const current = new Map(tasks.map((task) => [task.id, task]));
    const now = Date.now();
    for (const [id, row] of this.#rows) {
      const task = current.get(id) ?? find(id);
      if (task !== undefined) row.show(task, state, view, now);
      row.markOpen(id === view.task);
    }
  }

  #startState(state: ListedState): void {
    this.#state = state;
    this.#table.dataset.state = state;
    this.#body.replaceChildren();
    this.#rows.clear();
    this.#order = [];
    for (const [index, name] of ['detail', 'count', 'time'].entries()) {
      part(this.#table, `head-${name}`, HTMLElement).textContent = COLUMNS[state].headings[index] as string;
    }
  }

  #place(order: string[]): void {
    const wanted = new Set(order);
    for (const [id, row] of this.#rows) {
      if (wanted.has(id)) continue;
      row.element.remove();
      this.#rows.delete(id);
    }
    let next = this.#body.firstElementChild;
    for (const id of order) {
      const row = this.#rows.get(id) ?? new TaskRow();
      this.#rows.set(id, row);
      if (row.element === next) next = next.nextElementSibling;
      else this.#body.insertBefore(row.element, next);
    }
    this.#order = order;
  }

  #age(): void {
    if (document.visibilityState === 'hidden' || this.#state === 'completed') return;
    const now = Date.now();
    for (const row of this.#rows.values()) row.age(now);
  }
}

function isOtherSelection(view: View, previous: View | undefined): boolean {
  return view.q !== previous?.q || view.action !== previous.action;
}

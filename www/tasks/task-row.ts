import { part, stamp } from '../shared/dom.ts';
import { addressOf, type View } from './address.ts';
import type { BoardTask, State } from './board-task.ts';
import { COLUMNS, orderText } from './state-columns.ts';
import { dataText } from './summary-text.ts';
import { visibleText } from './visible-text.ts';

export type ListedState = Exclude<State, 'failed'>;

export class TaskRow {
  readonly element = stamp('task-row');
  readonly #link = part(this.element, 'action', HTMLAnchorElement);
  readonly #time = part(this.element, 'time', HTMLElement);
  #task: BoardTask | undefined;
  #state: ListedState = 'completed';

  /** @param state state whose table contains the row; `task.state` may differ from it after an event */
  show(task: BoardTask, state: ListedState, view: View, now: number): void {
    if (task === this.#task) return;
    this.#task = task;
    this.#state = state;
    const { detail, size, count } = COLUMNS[state];
    this.element.dataset.row = task.id;
    this.element.dataset.state = task.state;
    part(this.element, 'mark', HTMLElement).dataset.state = task.state;
    this.#link.textContent = visibleText(task.action);
    this.#link.title = task.action.length > 24 ? visibleText(task.action) : '';
    this.#link.href = addressOf({ ...view, task: task.id });
    part(this.element, 'data', HTMLElement).textContent = dataText(task.payload ?? '');
    part(this.element, 'order', HTMLElement).textContent = orderText(task);
    const isListed = task.state === state;
    part(this.element, 'detail', HTMLElement).textContent = isListed ? detail(task) : describeOther(task, state);
    this.#showProgress(isListed && state === 'running' ? task.progress?.fraction : undefined);
    part(this.element, 'size', HTMLElement).textContent = isListed ? size(task) : '';
    part(this.element, 'count', HTMLElement).textContent = isListed ? count(task) : '';
    this.age(now);
  }

  #showProgress(fraction: number | undefined): void {
    const cell = part(this.element, 'detail-cell', HTMLElement);
    if (fraction === undefined) cell.style.removeProperty('--progress');
    else cell.style.setProperty('--progress', String(fraction));
    cell.toggleAttribute('data-repeated', this.element.dataset.state === 'running' && fraction === undefined);
  }

  /** Updates the age of the task or the countdown to the next attempt. */
  age(now: number): void {
    if (this.#task === undefined) return;
    const text = this.#task.state === this.#state ? COLUMNS[this.#state].time(this.#task, now) : '';
    if (text !== this.#time.textContent) this.#time.textContent = text;
  }

  markOpen(isOpen: boolean): void {
    this.element.toggleAttribute('data-inspected', isOpen);
    if (isOpen) this.#link.setAttribute('aria-current', 'true');
    else this.#link.removeAttribute('aria-current');
  }
}

function describeOther(task: BoardTask, state: ListedState): string {
  return state === 'running' && task.state === 'queued' ? 'waits for a thread' : `now ${task.state}`;
}

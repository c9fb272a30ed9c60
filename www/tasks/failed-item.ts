import { part, stamp } from '../shared/dom.ts';
import { formatClock } from './amounts.ts';
import type { BoardTask } from './board-task.ts';
import { orderText } from './state-columns.ts';
import { visibleText } from './visible-text.ts';

export class FailedItem {
  readonly element = stamp('failed-item');
  readonly #box = part(this.element, 'select', HTMLInputElement);
  readonly #link = part(this.element, 'open', HTMLAnchorElement);
  #task: BoardTask | undefined;

  /** @param address URL of the task's details */
  show(task: BoardTask, address: string): void {
    if (this.#link.getAttribute('href') !== address) this.#link.href = address;
    if (task === this.#task) return;
    this.#task = task;
    const { id, action, reason = '', attempts, permanent, endedAtMs } = task;
    this.element.dataset.row = id;
    this.#link.textContent = visibleText(action);
    part(this.element, 'select-action', HTMLElement).textContent = visibleText(action);
    part(this.element, 'redrive', HTMLButtonElement).setAttribute('aria-label', `Redrive ${action}`);
    part(this.element, 'edit', HTMLButtonElement).setAttribute('aria-label', `Edit and resubmit ${action}`);
    part(this.element, 'failed-reason', HTMLElement).textContent = visibleText(reason);
    part(this.element, 'failed-order', HTMLElement).textContent = orderText(task);
    part(this.element, 'failed-attempts', HTMLElement).textContent =
      attempts === undefined ? '' : attempts === 1 ? '1 attempt' : `${attempts} attempts`;
    part(this.element, 'failed-permanent', HTMLElement).hidden = permanent !== true;
    part(this.element, 'failed-time', HTMLElement).textContent =
      endedAtMs === undefined ? '' : formatClock(endedAtMs, false);
  }

  mark({ isSelected, isOpen }: { isSelected: boolean; isOpen: boolean }): void {
    this.#box.checked = isSelected;
    this.element.toggleAttribute('data-selected', isSelected);
    this.element.toggleAttribute('data-inspected', isOpen);
    if (isOpen) this.#link.setAttribute('aria-current', 'true');
    else this.#link.removeAttribute('aria-current');
  }
}

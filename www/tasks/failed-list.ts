import { addressOf, type View } from './address.ts';
import type { BoardTask } from './board-task.ts';
import { FailedItem } from './failed-item.ts';

export interface FailedListListeners {
  onOpen(id: string): void;
  onSelect(id: string, isSelected: boolean): void;
  onRedrive(id: string): void;
  onEdit(id: string): void;
}

/** List of failed tasks. Items are updated in place, so that they keep the focus. */
export class FailedList {
  readonly #list: HTMLElement;
  readonly #listeners: FailedListListeners;
  readonly #items = new Map<string, FailedItem>();
  #order: readonly string[] = [];
  #anchor: string | undefined;

  constructor(list: HTMLElement, listeners: FailedListListeners) {
    this.#list = list;
    this.#listeners = listeners;
    list.addEventListener('click', (event) => this.#onClick(event));
  }

  show(tasks: readonly BoardTask[], view: View, isSelected: (id: string) => boolean): void {
    this.#order = tasks.map(({ id }) => id);
    const wanted = new Set(this.#order);
    for (const [id, item] of this.#items) {
      if (wanted.has(id)) continue;
      item.element.remove();
      this.#items.delete(id);
    }
    let next = this.#list.firstElementChild;
    for (const task of tasks) {
      const item = this.#items.get(task.id) ?? new FailedItem();
      this.#items.set(task.id, item);
      item.show(task, addressOf({ ...view, task: task.id }));
      item.mark({ isSelected: isSelected(task.id), isOpen: view.task === task.id });
      if (item.element === next) next = next.nextElementSibling;
      else this.#list.insertBefore(item.element, next);
    }
  }

  #onClick(event: MouseEvent): void {
    const target = event.target as Element;
    const id = target.closest<HTMLElement>('[data-row]')?.dataset.row;
    if (id === undefined) return;
    const button = target.closest('button');
    if (target instanceof HTMLInputElement) this.#select(id, target.checked, event.shiftKey);
    else if (button?.dataset.part === 'redrive') this.#listeners.onRedrive(id);
    else if (button !== null) this.#listeners.onEdit(id);
    else if (target.closest('label') === null) {
      const opensElsewhere = event.ctrlKey || event.metaKey || event.shiftKey;
      if (opensElsewhere || getSelection()?.isCollapsed === false) return;
      event.preventDefault();
      this.#listeners.onOpen(id);
    }
  }

  /** Selects or deselects a task. A range also contains all tasks back to the previously clicked one. */
  #select(id: string, isSelected: boolean, isRange: boolean): void {
    const from = isRange && this.#anchor !== undefined ? this.#order.indexOf(this.#anchor) : -1;
    const to = this.#order.indexOf(id);
    const range = from < 0 ? [id] : this.#order.slice(Math.min(from, to), Math.max(from, to) + 1);
    this.#anchor = id;
    for (const each of range) this.#listeners.onSelect(each, isSelected);
  }
}

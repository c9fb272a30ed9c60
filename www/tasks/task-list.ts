import { part } from '../shared/dom.ts';
import type { BoardTask } from './board-task.ts';
import { TaskItem } from './task-item.ts';

/** Shows the listed tasks that match the search. Items are updated in place, so that they stay open and focused. */
export class TaskList {
  readonly #list = part(document, 'task-list', HTMLElement);
  readonly #count = part(document, 'task-count', HTMLElement);
  readonly #empty = part(document, 'task-empty', HTMLElement);
  readonly #items = new Map<string, TaskItem>();
  #tasks: readonly BoardTask[] = [];
  #state = '';
  #search = '';

  /** Shows the tasks of a state. */
  show(tasks: readonly BoardTask[], state: string): void {
    this.#tasks = tasks;
    this.#state = state;
    this.#render();
  }

  set search(text: string) {
    this.#search = text.trim().toLowerCase();
    this.#render();
  }

  #render(): void {
    const tasks = this.#tasks.filter((task) => this.#fits(task));
    const shown = new Set(tasks.map(({ id }) => id));
    for (const [id, item] of this.#items) {
      if (shown.has(id)) continue;
      item.element.remove();
      this.#items.delete(id);
    }
    let before: Element | null = this.#list.firstElementChild;
    for (const task of tasks) {
      const item = this.#items.get(task.id) ?? new TaskItem();
      this.#items.set(task.id, item);
      item.show(task);
      if (item.element === before) before = before.nextElementSibling;
      else this.#list.insertBefore(item.element, before);
    }
    this.#count.textContent =
      tasks.length === this.#tasks.length ? `${tasks.length}` : `${tasks.length} of ${this.#tasks.length}`;
    this.#empty.hidden = tasks.length > 0;
    this.#empty.textContent = this.#whyEmpty();
  }

  #whyEmpty(): string {
    if (this.#tasks.length > 0) return 'No task holds what you look for.';
    if (this.#state === 'queued') return 'No task is queued.';
    return 'No stored task yet. Queue one, and it appears here.';
  }

  #fits({ id, action, payload = '', result }: BoardTask): boolean {
    return [id, action, payload, result ?? ''].some((text) => text.toLowerCase().includes(this.#search));
  }
}

import { part } from '../shared/dom.ts';
import { TaskItem } from './task-item.ts';
import type { TaskRow } from './tasks-api.ts';

/** Shows the newest stored tasks that match the search. Items are updated in place, so that they stay open and focused. */
export class TaskList {
  readonly #list = part(document, 'task-list', HTMLElement);
  readonly #count = part(document, 'task-count', HTMLElement);
  readonly #empty = part(document, 'task-empty', HTMLElement);
  readonly #items = new Map<string, TaskItem>();
  #rows: TaskRow[] = [];
  #status = '';
  #search = '';

  /** Shows the rows of a listing. @param status the status that the listing was filtered by, or empty for all tasks */
  show(rows: TaskRow[], status: string): void {
    this.#rows = rows;
    this.#status = status;
    this.#render();
  }

  set search(text: string) {
    this.#search = text.trim().toLowerCase();
    this.#render();
  }

  #render(): void {
    const rows = this.#rows.filter((row) => this.#fits(row));
    const shown = new Set(rows.map(({ id }) => id));
    for (const [id, item] of this.#items) {
      if (shown.has(id)) continue;
      item.element.remove();
      this.#items.delete(id);
    }
    let before: Element | null = this.#list.firstElementChild;
    for (const row of rows) {
      const item = this.#items.get(row.id) ?? new TaskItem();
      this.#items.set(row.id, item);
      item.show(row);
      if (item.element === before) before = before.nextElementSibling;
      else this.#list.insertBefore(item.element, before);
    }
    const count = rows.length === this.#rows.length ? `${rows.length}` : `${rows.length} of ${this.#rows.length}`;
    this.#count.textContent = count;
    this.#empty.hidden = rows.length > 0;
    this.#empty.textContent = this.#whyEmpty();
  }

  #whyEmpty(): string {
    if (this.#rows.length > 0) return 'No task holds what you look for.';
    if (this.#status !== '') return `No stored task has the status “${this.#status}”.`;
    return 'No stored task yet. Queue one, and it appears here.';
  }

  #fits({ id, payload, result }: TaskRow): boolean {
    return [id, payload, result ?? ''].some((text) => text.toLowerCase().includes(this.#search));
  }
}

import { part, stamp } from '../shared/parts.ts';
import { formatMeasured } from './durations.ts';
import { readOutput } from './json-text.ts';
import type { Submission, TaskRow } from './tasks-api.ts';

/** How many stay in sight. */
const LIMIT = 8;
/** A task whose row has not appeared by then is no longer said to be on its way. */
const OVERDUE_MS = 10_000;

interface OwnTask {
  id: string;
  queuedAt: number;
  element: HTMLElement;
  state: 'queued' | 'overdue' | 'completed';
}

/** The tasks that were queued from this page, from the answer to their completed row. */
export class OwnTasks {
  readonly #panel = part(document, 'own-tasks', HTMLElement);
  readonly #list = part(this.#panel, 'own-list', HTMLElement);
  readonly #status = part(this.#panel, 'own-status', HTMLElement);
  #tasks: OwnTask[] = [];

  constructor() {
    setInterval(() => this.#age(), 200);
  }

  /** Whether a row is still to come. */
  get expecting(): boolean {
    return this.#tasks.some(({ state }) => state === 'queued');
  }

  /** Whether a row is to be looked for, be it overdue. */
  get open(): boolean {
    return this.#tasks.some(({ state }) => state !== 'completed');
  }

  add(id: string, { action }: Submission): void {
    const element = stamp('own-task');
    element.dataset.id = id;
    part(element, 'action', HTMLElement).textContent = action;
    const task: OwnTask = { id, queuedAt: performance.now(), element, state: 'queued' };
    this.#enter(task, 'queued', '');
    this.#tasks.unshift(task);
    this.#list.prepend(element);
    for (const { element: old } of this.#tasks.splice(LIMIT)) old.remove();
    this.#panel.hidden = false;
    this.#status.textContent = `Queued ${action}`;
  }

  /** Looks for the rows of open tasks among those that the service lists. */
  find(rows: TaskRow[]): void {
    for (const task of this.#tasks) {
      if (task.state === 'completed') continue;
      const row = rows.find(({ id }) => id === task.id);
      if (row === undefined) continue;
      const took = formatMeasured(performance.now() - task.queuedAt);
      this.#enter(task, 'completed', `after ${took}`);
      part(task.element, 'output', HTMLElement).textContent = readOutput(row.result);
      const { textContent: action } = part(task.element, 'action', HTMLElement);
      this.#status.textContent = `Completed ${action}: ${readOutput(row.result)}`;
    }
  }

  #age(): void {
    for (const task of this.#tasks) {
      if (task.state !== 'queued') continue;
      const age = performance.now() - task.queuedAt;
      if (age < OVERDUE_MS) {
        part(task.element, 'time', HTMLElement).textContent = formatMeasured(age);
      } else {
        this.#enter(task, 'overdue', '');
        part(task.element, 'output', HTMLElement).textContent =
          'No row after 10 s. It may still wait, or have failed: a failed task leaves no row.';
      }
    }
  }

  #enter(task: OwnTask, state: OwnTask['state'], time: string): void {
    const words = { queued: 'queued', overdue: 'no result yet', completed: 'completed' };
    task.state = state;
    task.element.dataset.state = state;
    part(task.element, 'state', HTMLElement).textContent = words[state];
    part(task.element, 'time', HTMLElement).textContent = time;
  }
}

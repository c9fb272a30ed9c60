import { part, stamp } from '../shared/dom.ts';
import { formatMeasured } from './durations.ts';
import { readOutput } from './json-text.ts';
import { findTask, retryTask, type Submission, type TaskState } from './tasks-api.ts';

/** Maximum number of own tasks that are shown. Beyond it, the oldest is removed. */
const LIMIT = 8;

interface OwnTask {
  id: string;
  action: string;
  queuedAt: number;
  element: HTMLElement;
  status: TaskState['status'] | 'gone';
}

/** List of the tasks queued from this page, with their progress. */
export class OwnTasks {
  readonly #panel = part(document, 'own-tasks', HTMLElement);
  readonly #list = part(this.#panel, 'own-list', HTMLElement);
  readonly #status = part(this.#panel, 'own-status', HTMLElement);
  readonly #onRetry: () => void;
  #tasks: OwnTask[] = [];

  /** @param onRetry called when a failed task is queued again */
  constructor(onRetry: () => void) {
    this.#onRetry = onRetry;
    setInterval(() => this.#age(), 200);
  }

  /** Whether any of the tasks is neither completed nor failed. */
  get open(): boolean {
    return this.#tasks.some(isOpen);
  }

  add(id: string, { action }: Submission): void {
    const element = stamp('own-task');
    element.dataset.id = id;
    part(element, 'action', HTMLElement).textContent = action;
    const task: OwnTask = { id, action, queuedAt: performance.now(), element, status: 'queued' };
    part(element, 'try-again', HTMLButtonElement).addEventListener('click', () => void this.#retry(task));
    this.#show(task, { status: 'queued' });
    this.#tasks.unshift(task);
    this.#list.prepend(element);
    for (const { element: old } of this.#tasks.splice(LIMIT)) old.remove();
    this.#panel.hidden = false;
    this.#status.textContent = `Queued ${action}`;
  }

  /** Requests and shows the progress of the unfinished tasks. @throws as `findTask` */
  async refresh(): Promise<void> {
    await Promise.all(
      this.#tasks.filter(isOpen).map(async (task) => this.#show(task, (await findTask(task.id)) ?? { status: 'gone' })),
    );
  }

  async #retry(task: OwnTask): Promise<void> {
    const button = part(task.element, 'try-again', HTMLButtonElement);
    button.disabled = true;
    try {
      await retryTask(task.id);
      task.queuedAt = performance.now();
      this.#show(task, { status: 'queued' });
      this.#status.textContent = `Queued ${task.action} again`;
      this.#onRetry();
    } catch (error) {
      part(task.element, 'output', HTMLElement).textContent = (error as Error).message;
    } finally {
      button.disabled = false;
    }
  }

  #show(task: OwnTask, state: TaskState | { status: 'gone' }): void {
    const ends = isOpen(task) && !isOpen(state);
    task.status = state.status;
    task.element.dataset.state = state.status;
    const { word, output, said } = describe(state);
    part(task.element, 'state', HTMLElement).textContent = word;
    part(task.element, 'output', HTMLElement).textContent = output;
    part(task.element, 'try-again', HTMLElement).hidden = state.status !== 'failed';
    const took = formatMeasured(performance.now() - task.queuedAt);
    part(task.element, 'time', HTMLElement).textContent = state.status === 'completed' ? `after ${took}` : '';
    if (ends) this.#status.textContent = `${said} ${task.action}: ${output}`;
  }

  #age(): void {
    for (const task of this.#tasks) {
      if (!isOpen(task)) continue;
      part(task.element, 'time', HTMLElement).textContent = formatMeasured(performance.now() - task.queuedAt);
    }
  }
}

function isOpen({ status }: { status: OwnTask['status'] }): boolean {
  return status === 'queued' || status === 'running' || status === 'retrying';
}

/** Returns the name of a task's state, its output or failure reason, and the word that announces the state. */
function describe(state: TaskState | { status: 'gone' }): { word: string; output: string; said: string } {
  switch (state.status) {
    case 'queued':
      return { word: 'queued', output: '', said: 'Queued' };
    case 'running':
      return { word: state.attempt > 1 ? `running, attempt ${state.attempt}` : 'running', output: '', said: 'Running' };
    case 'retrying': {
      const seconds = Math.max(1, Math.ceil(state.next_attempt_at - Date.now() / 1000));
      return { word: `again in ${seconds} s`, output: state.reason, said: 'Retrying' };
    }
    case 'completed':
      return { word: 'completed', output: readOutput(state.result), said: 'Completed' };
    case 'failed':
      return { word: 'failed', output: state.reason, said: 'Failed' };
    case 'gone':
      return { word: 'unknown', output: 'The service does not know this task any more.', said: 'Lost sight of' };
  }
}

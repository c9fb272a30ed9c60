import { part, stamp } from '../shared/dom.ts';
import { formatMeasured } from './durations.ts';
import { describeState, isUnfinished, type OwnTaskState } from './own-task-state.ts';
import { cancelTask, findTask, Refused, retryTask, type Submission, type TaskProgress } from './tasks-api.ts';

/** Maximum number of tasks shown. Adding a task beyond the maximum removes the oldest task. */
const LIMIT = 8;

interface OwnTask {
  id: string;
  action: string;
  queuedAt: number;
  element: HTMLElement;
  status: OwnTaskState['status'];
  /** Whether the user has cancelled the task. */
  cancelling: boolean;
}

/** List of the tasks queued from this page and their progress. */
export class OwnTasks {
  readonly #panel = part(document, 'own-tasks', HTMLElement);
  readonly #list = part(this.#panel, 'own-list', HTMLElement);
  readonly #status = part(this.#panel, 'own-status', HTMLElement);
  readonly #onChange: () => void;
  #tasks: OwnTask[] = [];

  /** @param onChange called after the user retries a failed task or cancels a task */
  constructor(onChange: () => void) {
    this.#onChange = onChange;
    setInterval(() => this.#age(), 200);
  }

  /** Whether any task is still unfinished. */
  get open(): boolean {
    return this.#tasks.some(isOpen);
  }

  add(id: string, { action }: Submission): void {
    const element = stamp('own-task');
    element.dataset.id = id;
    part(element, 'action', HTMLElement).textContent = action;
    part(element, 'progress-bar', HTMLElement).setAttribute('aria-label', `Progress of ${action}`);
    const task: OwnTask = { id, action, queuedAt: performance.now(), element, status: 'queued', cancelling: false };
    part(element, 'try-again', HTMLButtonElement).addEventListener('click', () => void this.#retry(task));
    part(element, 'cancel', HTMLButtonElement).addEventListener('click', () => void this.#cancel(task));
    this.#show(task, { status: 'queued' });
    this.#tasks.unshift(task);
    this.#list.prepend(element);
    for (const { element: old } of this.#tasks.splice(LIMIT)) old.remove();
    this.#panel.hidden = false;
    this.#status.textContent = `Queued ${action}`;
  }

  /** Fetches and shows the state of all unfinished tasks. @throws the same errors as `findTask` */
  async refresh(): Promise<void> {
    await Promise.all(
      this.#tasks.filter(isOpen).map(async (task) => {
        const state = (await findTask(task.id)) ?? { status: task.cancelling ? 'cancelled' : 'gone' };
        if (isOpen(task)) this.#show(task, state);
      }),
    );
  }

  /** Shows a state reported by an event if the task is in the list and unfinished. */
  report(id: string, state: OwnTaskState): void {
    const task = this.#tasks.find((each) => each.id === id);
    if (task !== undefined && isOpen(task)) this.#show(task, state);
  }

  async #retry(task: OwnTask): Promise<void> {
    const button = part(task.element, 'try-again', HTMLButtonElement);
    button.disabled = true;
    try {
      await retryTask(task.id);
      task.queuedAt = performance.now();
      this.#show(task, { status: 'queued' });
      this.#status.textContent = `Queued ${task.action} again`;
      this.#onChange();
    } catch (error) {
      part(task.element, 'output', HTMLElement).textContent = (error as Error).message;
    } finally {
      button.disabled = false;
    }
  }

  async #cancel(task: OwnTask): Promise<void> {
    if (task.cancelling) return;
    task.cancelling = true;
    showCancel(task);
    try {
      const cancelled = await cancelTask(task.id);
      if (!isOpen(task)) return;
      if (cancelled) this.#show(task, { status: 'cancelled' });
      else this.#status.textContent = `Cancelling ${task.action}`;
    } catch (error) {
      task.cancelling = false;
      showCancel(task);
      // Status 404 (unknown task) or 409 (finished task) is not reported, because the next poll shows the task's state.
      const isOver = error instanceof Refused && (error.status === 404 || error.status === 409);
      if (!isOver) this.#status.textContent = `Cannot cancel ${task.action}: ${(error as Error).message}`;
    }
    this.#onChange();
  }

  #show(task: OwnTask, state: OwnTaskState): void {
    const ends = isOpen(task) && !isUnfinished(state.status);
    task.status = state.status;
    task.cancelling &&= isOpen(task);
    task.element.dataset.state = state.status;
    const { word, output, said } = describeState(state);
    part(task.element, 'state', HTMLElement).textContent = task.cancelling ? 'cancelling' : word;
    part(task.element, 'output', HTMLElement).textContent = output;
    part(task.element, 'try-again', HTMLElement).hidden = state.status !== 'failed';
    showProgress(task.element, state.status === 'running' ? state.progress : undefined);
    showCancel(task);
    const took = formatMeasured(performance.now() - task.queuedAt);
    part(task.element, 'time', HTMLElement).textContent = state.status === 'completed' ? `after ${took}` : '';
    if (ends) this.#status.textContent = output === '' ? `${said} ${task.action}` : `${said} ${task.action}: ${output}`;
  }

  #age(): void {
    for (const task of this.#tasks) {
      if (!isOpen(task)) continue;
      part(task.element, 'time', HTMLElement).textContent = formatMeasured(performance.now() - task.queuedAt);
    }
  }
}

function isOpen({ status }: OwnTask): boolean {
  return isUnfinished(status);
}

function showProgress(element: HTMLElement, progress: TaskProgress | undefined): void {
  part(element, 'progress', HTMLElement).hidden = progress === undefined;
  if (progress === undefined) return;
  part(element, 'progress-bar', HTMLProgressElement).value = progress.fraction;
  part(element, 'progress-percent', HTMLElement).textContent = `${Math.floor(progress.fraction * 100)} %`;
  part(element, 'progress-note', HTMLElement).textContent = progress.note ?? '';
}

/** Shows a task's cancel button while the task is unfinished. If the hidden button had the focus, focuses the task. */
function showCancel(task: OwnTask): void {
  const button = part(task.element, 'cancel', HTMLButtonElement);
  const isFocused = document.activeElement === button;
  button.hidden = !isOpen(task);
  // The `disabled` attribute would make the button lose focus.
  button.ariaDisabled = String(task.cancelling);
  if (isFocused && button.hidden) task.element.focus();
}

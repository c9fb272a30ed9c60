import type { TaskState } from '../client/task-state.ts';
import { part } from '../shared/dom.ts';
import { isUnfinished } from './board-task.ts';
import { OwnTask, type OwnTaskActions } from './own-task.ts';
import { describeState, fromBoard, fromResponse, type OwnTaskState } from './own-task-state.ts';
import { cancelTask, deadLetters, findTask, hasStatus, type Submission } from './service.ts';
import type { Store } from './store.ts';

/** Maximum number of tasks in the list of tasks queued from this page. The oldest task is removed first. */
const LIMIT = 8;
/** First delay between requests for the state of a task without new events. Later delays are longer. */
const FIRST_CHECK_MS = 1_000;
const CHECK_GROWTH = 1.5;
const MAX_CHECK_MS = 10_000;
const MAX_ANNOUNCEMENT = 200;

interface Followed {
  task: OwnTask;
  unkeep: () => void;
  seen: unknown;
  checkAt: number;
  waitMs: number;
  isChecking: boolean;
}

/** List of the tasks queued from this page. */
export class OwnTasks {
  readonly #panel = part(document, 'own-tasks', HTMLElement);
  readonly #list = part(this.#panel, 'own-list', HTMLElement);
  readonly #status = part(this.#panel, 'own-status', HTMLElement);
  readonly #store: Store;
  readonly #actions: OwnTaskActions;
  #followed: Followed[] = [];

  constructor(store: Store, { onEdit, onOpen }: Pick<OwnTaskActions, 'onEdit' | 'onOpen'>) {
    this.#store = store;
    this.#actions = {
      onEdit,
      onOpen,
      onRetry: (task) => void this.#retry(task),
      onCancel: (task) => void this.#cancel(task),
    };
    store.subscribe(() => this.#update());
    store.onGap(() => this.checkSoon());
    setInterval(() => this.#age(), 200);
  }

  add(id: string, submission: Submission): void {
    const task = new OwnTask(id, submission, this.#actions);
    const unkeep = this.#store.keep(id);
    this.#followed.unshift({ task, unkeep, seen: undefined, isChecking: false, ...firstCheck() });
    this.#list.prepend(task.element);
    for (const oldest of this.#followed.splice(LIMIT)) {
      oldest.unkeep();
      oldest.task.element.remove();
    }
    this.#panel.hidden = false;
    this.#status.textContent = `Queued ${task.name}`;
    this.#update();
  }

  /** Requests the states of all unfinished tasks soon, for example because events were missed. */
  checkSoon(): void {
    for (const each of this.#followed) each.checkAt = 0;
  }

  #update(): void {
    for (const each of this.#followed) {
      const known = this.#store.get(each.task.id);
      if (known === undefined || known === each.seen) continue;
      each.seen = known;
      if (each.task.status === 'failed' && known.state !== 'failed') this.#reopen(each.task);
      if (!each.task.isOpen) continue;
      const state = fromBoard(known);
      if (state === undefined) void this.#check(each);
      else this.#show(each.task, state);
      Object.assign(each, firstCheck());
    }
  }

  async #check(each: Followed): Promise<void> {
    if (each.isChecking) return;
    const { task } = each;
    each.isChecking = true;
    each.waitMs = Math.min(each.waitMs * CHECK_GROWTH, MAX_CHECK_MS);
    each.checkAt = performance.now() + each.waitMs;
    try {
      const found = await findTask<TaskState>(task.id);
      const state: OwnTaskState = found ? fromResponse(found) : { status: task.cancelling ? 'cancelled' : 'gone' };
      // Marks the latest event as seen, because an older event must not reopen a finished task.
      if (!isUnfinished(state.status)) each.seen = this.#store.get(task.id);
      if (task.isOpen) this.#show(task, state);
    } catch {
      // A failed request is repeated after `waitMs`.
    } finally {
      each.isChecking = false;
    }
  }

  async #retry(task: OwnTask): Promise<void> {
    const button = part(task.element, 'try-again', HTMLButtonElement);
    button.disabled = true;
    try {
      await deadLetters.redrive(task.id);
      this.#reopen(task);
      this.#status.textContent = `Queued ${task.name} again`;
      for (const each of this.#followed) if (each.task === task) Object.assign(each, firstCheck());
    } catch (error) {
      part(task.element, 'output', HTMLElement).textContent = (error as Error).message;
    } finally {
      button.disabled = false;
    }
  }

  #reopen(task: OwnTask): void {
    task.queuedAt = performance.now();
    this.#show(task, { status: 'queued' });
  }

  async #cancel(task: OwnTask): Promise<void> {
    if (task.cancelling) return;
    task.cancelling = true;
    try {
      const isCancelled = await cancelTask(task.id);
      if (!task.isOpen) return;
      if (isCancelled) this.#show(task, { status: 'cancelled' });
      else this.#status.textContent = `Cancelling ${task.name}`;
    } catch (error) {
      task.cancelling = false;
      // An unknown (404) or finished (409) task needs no error message, because the next request shows its state.
      const isOver = hasStatus(error, 404, 409);
      if (!isOver) this.#status.textContent = `Cannot cancel ${task.name}: ${(error as Error).message}`;
    }
    this.checkSoon();
  }

  #show(task: OwnTask, state: OwnTaskState): void {
    const ends = task.isOpen && !isUnfinished(state.status);
    task.show(state);
    if (!ends) return;
    const { output, said } = describeState(state);
    const text = output === '' ? `${said} ${task.name}` : `${said} ${task.name}: ${output}`;
    this.#status.textContent = text.slice(0, MAX_ANNOUNCEMENT);
  }

  #age(): void {
    const now = performance.now();
    for (const each of this.#followed) {
      if (!each.task.isOpen) continue;
      each.task.age();
      if (now >= each.checkAt && document.visibilityState === 'visible') void this.#check(each);
    }
  }
}

function firstCheck(): { waitMs: number; checkAt: number } {
  return { waitMs: FIRST_CHECK_MS, checkAt: performance.now() + FIRST_CHECK_MS };
}

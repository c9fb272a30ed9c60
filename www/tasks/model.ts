import { effect, type ReadonlySignal, signal } from '@preact/signals';
import type { QueueStatus } from '../client/queue-api.ts';
import type { TaskEvent } from '../client/task-state.ts';
import { type ListFilter, listState, PAGE_SIZE } from './board-api.ts';
import { afterEvent, afterListing, type BoardTask, isUnfinished, type State } from './board-task.ts';

const RENDER_INTERVAL_MS = 100;
const REFRESH_DELAY_MS = 100;
const REFRESH_INTERVAL_MS = 1_000;
/** Maximum age of the list in a response with unfinished tasks. Nodes that share a queue send a cached list. */
const LISTING_AGE_MS = 1_500;
/** When twice this number of tasks is known, the oldest tasks are removed until this number is left. */
const MAX_TASKS = 10_000;
export const MAX_LISTED = 10_000;

/** List of the tasks in a state, in the service's order. */
export interface TaskList {
  readonly state: State;
  readonly filter: ListFilter;
  ids: readonly string[];
  /** Whether the service has older tasks than the listed ones. */
  more: boolean;
  isLoaded: boolean;
  /** `performance.now()` of the last change of a task that is, was or may have to be in the list. */
  changedAt: number;
  /** `performance.now()` when the last successful request for the newest tasks was sent. */
  readAt: number;
}

interface Known {
  task: BoardTask;
  eventAt: number;
}

/** Tasks, their lists and the state of the queue, updated by events and responses of the service. */
export class Model {
  readonly #version = signal(0);
  readonly #queue = signal<QueueStatus>();
  readonly #problem = signal<Error>();
  readonly #gaps = signal(0);
  readonly #known = new Map<string, Known>();
  readonly #kept = new Map<string, number>();
  readonly #lists = new Map<State, TaskList>();
  #active: TaskList | undefined;
  #refreshTimer: ReturnType<typeof setTimeout> | undefined;
  #renderTimer: ReturnType<typeof setTimeout> | undefined;
  #renderedAt = Number.NEGATIVE_INFINITY;
  #isRenderingDue = false;

  constructor() {
    document.addEventListener('visibilitychange', () => {
      this.#refreshIfNeeded();
      if (this.#isRenderingDue) this.#render();
    });
  }

  /** Changes with tasks and lists, at most ten times per second and not while the page is hidden. */
  get version(): ReadonlySignal<number> {
    return this.#version;
  }

  get queue(): ReadonlySignal<QueueStatus | undefined> {
    return this.#queue;
  }

  /** Error of the last list request, or undefined if the request succeeded. */
  get problem(): ReadonlySignal<Error | undefined> {
    return this.#problem;
  }

  /** Number of tasks in a state. Completed tasks are counted since the service's start. */
  count(state: State): number | undefined {
    const status = this.#queue.value;
    if (status === undefined) return undefined;
    const { scheduled, waiting: queued, limited = 0, in_flight: running, delayed: retrying } = status;
    const { completed, dead: failed } = status;
    return { scheduled, queued, limited, running, retrying, completed, failed }[state];
  }

  get(id: string): BoardTask | undefined {
    return this.#known.get(id)?.task;
  }

  list(state: State): TaskList | undefined {
    return this.#lists.get(state);
  }

  /** Loaded tasks in a state. */
  tasks(state: State): BoardTask[] {
    const list = this.#lists.get(state);
    const tasks = (list?.ids ?? []).map((id) => this.get(id));
    return tasks.filter((task): task is BoardTask => task !== undefined && belongs(task, list as TaskList));
  }

  /** Keeps a task in memory until the returned function is called. */
  keep(id: string): () => void {
    this.#kept.set(id, (this.#kept.get(id) ?? 0) + 1);
    return () => {
      const uses = (this.#kept.get(id) ?? 1) - 1;
      if (uses > 0) this.#kept.set(id, uses);
      else this.#kept.delete(id);
    };
  }

  /** Reads the newest tasks in a state, and again whenever they change until another list is opened. */
  open(state: State, filter: ListFilter): void {
    let list = this.#lists.get(state);
    if (list === undefined || list.filter.action !== filter.action || list.filter.cause !== filter.cause) {
      const never = Number.NEGATIVE_INFINITY;
      list = { state, filter, ids: [], more: false, isLoaded: false, changedAt: never, readAt: never };
      this.#lists.set(state, list);
    }
    this.#active = list;
    void this.#read(list).catch(() => {
      // `#read` has stored the error in `problem`.
    });
    this.#requestRender();
  }

  /** Appends the next page of older tasks. @throws {ServiceError | UnreachableError} */
  async loadOlder(list: TaskList): Promise<void> {
    const before = list.ids.at(-1);
    if (before !== undefined) await this.#read(list, before);
  }

  /** Calls `listener` when events were missed. @returns a function that unsubscribes */
  onGap(listener: () => void): () => void {
    let isFirst = true;
    return effect(() => {
      this.#gaps.value;
      if (!isFirst) listener();
      isFirst = false;
    });
  }

  readonly apply = (events: readonly TaskEvent[]): void => {
    const eventAt = performance.now();
    for (const event of events) {
      const earlier = this.get(event.id);
      const task = afterEvent(earlier, event);
      // A Map keeps the position of an existing key, so the key is deleted first to order the map by last event.
      this.#known.delete(event.id);
      if (task !== undefined) this.#known.set(event.id, { task, eventAt });
      if (event.event !== 'progress') this.#noteChange(event.id, earlier, task, eventAt);
    }
    this.#prune();
    this.#refreshIfNeeded();
    this.#requestRender();
  };

  readonly setQueue = (status: QueueStatus): void => {
    const earlier = this.#queue.peek();
    this.#queue.value = status;
    // No event tells that a limit holds a task, or no longer does.
    const isChanged = (['accepted', 'limited', 'waiting', 'in_flight'] as const).some(
      (name) => status[name] !== earlier?.[name],
    );
    if (this.#active?.state === 'limited' && isChanged) this.#active.changedAt = performance.now();
    if (this.#problem.peek() !== undefined) this.#refreshSoon();
    else this.#refreshIfNeeded();
  };

  /** Requests the current list again and discards all other lists, because events were missed. */
  readonly reload = (): void => {
    for (const list of this.#lists.values()) {
      if (list === this.#active) list.changedAt = performance.now();
      else this.#lists.delete(list.state);
    }
    this.#refreshSoon();
    this.#gaps.value += 1;
  };

  /** Removes known tasks that the service no longer has in their state. */
  forget(isGone: (task: BoardTask) => boolean): void {
    for (const [id, { task }] of this.#known) if (isGone(task)) this.#known.delete(id);
    this.#render();
  }

  /** Requests the current list again soon. */
  refresh(): void {
    if (this.#active !== undefined) this.#active.changedAt = performance.now();
    this.#refreshSoon();
  }

  #noteChange(id: string, earlier: BoardTask | undefined, task: BoardTask | undefined, at: number): void {
    for (const list of this.#lists.values()) {
      const isIn = [earlier, task].some((each) => each !== undefined && belongs(each, list));
      if (isIn || (earlier === undefined && list.ids.includes(id))) list.changedAt = at;
    }
  }

  #requestRender(): void {
    this.#isRenderingDue = true;
    if (document.visibilityState === 'hidden') return;
    const delayMs = Math.max(0, this.#renderedAt + RENDER_INTERVAL_MS - performance.now());
    this.#renderTimer ??= setTimeout(() => this.#render(), delayMs);
  }

  #render(): void {
    clearTimeout(this.#renderTimer);
    this.#renderTimer = undefined;
    this.#isRenderingDue = false;
    this.#version.value += 1;
    // Set after rendering, so that slow rendering still leaves time for user input.
    this.#renderedAt = performance.now();
  }

  /** Reads the newest tasks of a list, or the next older ones. @throws {ServiceError | UnreachableError} */
  async #read(list: TaskList, before?: string): Promise<void> {
    const sentAt = performance.now();
    if (before === undefined) list.readAt = sentAt;
    const { state, filter } = list;
    let page: BoardTask[];
    try {
      page = await listState(state, before === undefined ? filter : { ...filter, before });
    } catch (error) {
      if (before === undefined) this.#problem.value = error as Error;
      throw error;
    }
    if (this.#lists.get(state) !== list) return;
    const readAt = sentAt - ageOf(state);
    for (const listed of page) this.#merge(list, listed, readAt);
    const ids = page.map(({ id }) => id);
    if (before === undefined) this.#replaceNewest(list, ids);
    else if (list.ids.includes(before)) this.#setIds(list, [...list.ids, ...ids], ids.length >= PAGE_SIZE);
    list.isLoaded = true;
    this.#refreshIfNeeded();
    this.#requestRender();
  }

  #merge(list: TaskList, listed: BoardTask, readAt: number): void {
    const known = this.#known.get(listed.id);
    const isNewer = known !== undefined && known.eventAt >= readAt;
    const task = afterListing(known?.task, listed, isNewer);
    // A response that is older than an event of one of its tasks must be requested again.
    if (isNewer && task.state !== listed.state) list.changedAt = Math.max(list.changedAt, known.eventAt);
    this.#known.set(listed.id, { eventAt: Number.NEGATIVE_INFINITY, ...known, task });
  }

  #replaceNewest(list: TaskList, ids: readonly string[]): void {
    this.#problem.value = undefined;
    const end = list.ids.length > PAGE_SIZE && ids.length > 0 ? list.ids.indexOf(ids.at(-1) as string) : -1;
    const older = end < 0 ? [] : list.ids.slice(end + 1);
    this.#setIds(list, [...ids, ...older], older.length > 0 ? list.more : ids.length >= PAGE_SIZE);
  }

  #setIds(list: TaskList, ids: readonly string[], more: boolean): void {
    const all = [...new Set(ids)];
    list.ids = all.slice(0, MAX_LISTED);
    list.more = more || all.length > MAX_LISTED;
  }

  #refreshIfNeeded(): void {
    const list = this.#active;
    if (list === undefined || list.changedAt + ageOf(list.state) < list.readAt) return;
    // While `problem` is set, `setQueue` repeats the failed request at the next response of `GET /queue`.
    if (list.readAt > Number.NEGATIVE_INFINITY && this.#problem.peek() === undefined) this.#refreshSoon();
  }

  #refreshSoon(): void {
    const list = this.#active;
    if (this.#refreshTimer !== undefined || list === undefined || document.visibilityState === 'hidden') return;
    const earliest = Math.max(performance.now() + REFRESH_DELAY_MS, list.readAt + REFRESH_INTERVAL_MS);
    this.#refreshTimer = setTimeout(() => void this.#refresh(), earliest - performance.now());
  }

  async #refresh(): Promise<void> {
    if (this.#active !== undefined && document.visibilityState === 'visible') {
      await this.#read(this.#active).catch(() => {
        // `#read` has stored the error in `problem`.
      });
    }
    this.#refreshTimer = undefined;
    this.#refreshIfNeeded();
  }

  #prune(): void {
    if (this.#known.size <= MAX_TASKS * 2) return;
    const needed = new Set([...this.#lists.values()].flatMap(({ ids }) => ids));
    for (const id of this.#known.keys()) {
      if (this.#known.size <= MAX_TASKS) return;
      if (!needed.has(id) && !this.#kept.has(id)) this.#known.delete(id);
    }
  }
}

function ageOf(state: State): number {
  return isUnfinished(state) ? LISTING_AGE_MS : 0;
}

/** Returns whether a task belongs to a list. One whose cause is unknown may. */
function belongs({ state, action, cause }: BoardTask, { state: listed, filter }: TaskList): boolean {
  // The service lists a task as running from when it is taken, also while it waits for a thread.
  const isListed = state === listed || (listed === 'running' && state === 'queued');
  return isListed && (filter.action ?? action) === action && (filter.cause ?? cause) === (cause ?? filter.cause);
}

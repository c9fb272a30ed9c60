import { signal } from '@preact/signals';
import type { QueueStatus } from '../client/queue-api.ts';
import type { TaskEvent } from '../client/task-state.ts';
import { filterOf, isFiltered, isSearched, type ListFilter } from './address.ts';
import { afterEvent, afterListing, type BoardTask, fromListed, isUnfinished, type State } from './board-task.ts';
import { client } from './service.ts';

export const PAGE_SIZE = 100;
const RENDER_INTERVAL_MS = 100;
const REFRESH_DELAY_MS = 100;
const REFRESH_INTERVAL_MS = 1_000;
/** Searches for texts and times take the service longer. */
const SEARCH_INTERVAL_MS = 5_000;
const COUNT_INTERVAL_MS = 10_000;
/** Counts of which some change with each task that changes its state. */
const COUNTS = ['accepted', 'completed', 'dead', 'waiting', 'limited', 'scheduled', 'delayed', 'in_flight'] as const;
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
  /** Where the next page begins. Null if all tasks are listed. */
  next: string | null;
  /** Number of tasks that match, if there is a filter. A lower bound unless `isExact`. */
  total: { count: number; isExact: boolean; at: number } | undefined;
  isLoaded: boolean;
  /** `performance.now()` of the last change of a task that is, was or may have to be in the list. */
  changedAt: number;
  /** `performance.now()` when the last successful request for the newest tasks was sent. */
  readAt: number;
}

/** Tasks, their lists and the state of the queue, updated by events and responses of the service. */
export class Model {
  /** Changes with tasks and lists, at most ten times per second and not while the page is hidden. */
  readonly version = signal(0);
  readonly queue = signal<QueueStatus>();
  /** Number of times that events were missed, or that tasks were changed from this page. */
  readonly gaps = signal(0);
  /** Error of the last list request, or undefined if the request succeeded. */
  readonly problem = signal<Error>();
  readonly #known = new Map<string, { task: BoardTask; eventAt: number }>();
  readonly #kept = new Set<Iterable<string>>();
  readonly #lists = new Map<State, TaskList>();
  #active: TaskList | undefined;
  #refreshTimer: ReturnType<typeof setTimeout> | undefined;
  #renderTimer: ReturnType<typeof setTimeout> | undefined;
  #renderedAt = Number.NEGATIVE_INFINITY;

  constructor() {
    document.addEventListener('visibilitychange', () => {
      this.#refreshIfNeeded();
      this.#requestRender();
    });
  }

  /** Number of tasks in a state. Tasks that wait for a thread do not count as running. Completed tasks are counted since the service's start. */
  count(state: State): number | undefined {
    const status = this.queue.value;
    if (status === undefined) return undefined;
    const { scheduled, waiting: queued, limited = 0, running, delayed: retrying } = status;
    const { completed, dead: failed } = status;
    return { scheduled, queued, limited, running, retrying, completed, failed }[state];
  }

  get(id: string): BoardTask | undefined {
    return this.#known.get(id)?.task;
  }

  list(state: State): TaskList | undefined {
    return this.#lists.get(state);
  }

  tasks(state: State): BoardTask[] {
    const list = this.#lists.get(state);
    const tasks = (list?.ids ?? []).map((id) => this.get(id));
    return tasks.filter((task): task is BoardTask => task !== undefined && belongs(task, list as TaskList));
  }

  /** Number of tasks that match the filter of a list. A lower bound unless `isExact`. @param listed number of loaded ones */
  matching({ state, filter, next, total }: TaskList, listed: number): { count: number; isExact: boolean } {
    if (next === null) return { count: listed, isExact: true };
    if (isFiltered(filter)) return { count: Math.max(total?.count ?? 0, listed), isExact: total?.isExact === true };
    // The count of completed tasks begins with the service.
    const count = state === 'completed' ? 0 : (this.count(state) ?? 0);
    return { count: Math.max(count, listed), isExact: count > 0 };
  }

  /** Keeps tasks in memory until the returned function is called. */
  keep(ids: Iterable<string>): () => void {
    this.#kept.add(ids);
    return () => this.#kept.delete(ids);
  }

  /** Reads the newest tasks in a state unless they are open, and again whenever they change until another list is opened. */
  open(state: State, filter: ListFilter): void {
    let list = this.#lists.get(state);
    const isSame = JSON.stringify(list?.filter) === JSON.stringify(filter);
    if (isSame && list === this.#active) return;
    if (list === undefined || !isSame) {
      const never = Number.NEGATIVE_INFINITY;
      list = { state, filter, ids: [], next: null, total: undefined, isLoaded: false, changedAt: never, readAt: never };
      this.#lists.set(state, list);
    }
    this.#active = list;
    void this.#read(list);
    this.#requestRender();
  }

  /** Appends the next page. @throws {ServiceError | UnreachableError} */
  async loadMore(list: TaskList): Promise<void> {
    if (list.next !== null) await this.#read(list, list.next);
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

  readonly setQueue = (status: QueueStatus, isStreaming = true): void => {
    const earlier = this.queue.peek() ?? status;
    this.queue.value = status;
    const isChanged = COUNTS.some((name) => status[name] !== earlier[name]);
    // Without events, only changed counts show that tasks have changed.
    if (isChanged && !isStreaming) this.reload();
    // No event tells that a limit holds a task, or no longer does.
    if (isChanged && this.#active?.state === 'limited') this.#active.changedAt = performance.now();
    if (this.problem.peek() !== undefined) this.#refreshSoon();
    else this.#refreshIfNeeded();
  };

  /** Requests the current list again, and discards all other lists, because events were missed. */
  readonly reload = (): void => {
    for (const list of this.#lists.values()) {
      if (list === this.#active) list.changedAt = performance.now();
      else this.#lists.delete(list.state);
    }
    this.#refreshSoon();
    this.gaps.value += 1;
  };

  /** Removes known tasks that the service no longer has in their state. The next request counts the list again. */
  forget(isGone: (task: BoardTask) => boolean): void {
    for (const [id, { task }] of this.#known) if (isGone(task)) this.#known.delete(id);
    if (this.#active?.total !== undefined) this.#active.total.at = Number.NEGATIVE_INFINITY;
    this.#render();
  }

  #noteChange(id: string, earlier: BoardTask | undefined, task: BoardTask | undefined, at: number): void {
    for (const list of this.#lists.values()) {
      const isIn = [earlier, task].some((each) => each !== undefined && belongs(each, list));
      if (isIn || (earlier === undefined && list.ids.includes(id))) list.changedAt = at;
    }
  }

  #requestRender(): void {
    if (document.visibilityState === 'hidden') return;
    const delayMs = Math.max(0, this.#renderedAt + RENDER_INTERVAL_MS - performance.now());
    this.#renderTimer ??= setTimeout(() => this.#render(), delayMs);
  }

  #render(): void {
    clearTimeout(this.#renderTimer);
    this.#renderTimer = undefined;
    this.version.value += 1;
    // Set after rendering, so that slow rendering still leaves time for user input.
    this.#renderedAt = performance.now();
  }

  /** Reads the first page of a list, whose error is kept in `problem`, or the page at a cursor, whose error is thrown. */
  async #read(list: TaskList, cursor?: string): Promise<void> {
    const sentAt = performance.now();
    if (cursor === undefined) list.readAt = sentAt;
    const { state, filter, total } = list;
    const isDue = total === undefined || sentAt - total.at >= COUNT_INTERVAL_MS;
    // Counting takes the service longer.
    const isCounted = cursor === undefined && isDue && isFiltered(filter);
    try {
      const page = await client.search({ ...filterOf(filter), state, cursor, ...(!isCounted && { total: 0 }) });
      // The answer to a later request may have come first.
      if (this.#lists.get(state) !== list || (cursor === undefined && list.readAt !== sentAt)) return;
      const readAt = sentAt - ageOf(state);
      const { tasks, next_cursor: next } = page;
      for (const listed of tasks) this.#merge(list, fromListed(listed), readAt);
      const ids = tasks.map(({ id }) => id);
      if (page.total !== undefined)
        list.total = { count: page.total, isExact: page.total_is_exact === true, at: sentAt };
      if (cursor === undefined) this.#replaceNewest(list, ids, next);
      else if (list.next === cursor) this.#setIds(list, [...list.ids, ...ids], next);
      list.isLoaded = true;
      this.#refreshIfNeeded();
      this.#requestRender();
    } catch (error) {
      // Also the error of an answer that is no page, such as a proxy may send, so that the next one is asked for.
      if (cursor !== undefined) throw error;
      this.problem.value = error as Error;
    }
  }

  #merge(list: TaskList, listed: BoardTask, readAt: number): void {
    const known = this.#known.get(listed.id);
    const isNewer = known !== undefined && known.eventAt >= readAt;
    const task = afterListing(known?.task, listed, isNewer);
    // A response that is older than an event of one of its tasks must be requested again.
    if (isNewer && task.state !== listed.state) list.changedAt = Math.max(list.changedAt, known.eventAt);
    this.#known.set(listed.id, { eventAt: Number.NEGATIVE_INFINITY, ...known, task });
  }

  #replaceNewest(list: TaskList, ids: readonly string[], next: string | null): void {
    this.problem.value = undefined;
    const end = list.ids.length > PAGE_SIZE && ids.length > 0 ? list.ids.indexOf(ids.at(-1) as string) : -1;
    const older = end < 0 ? [] : list.ids.slice(end + 1);
    this.#setIds(list, [...ids, ...older], older.length > 0 ? list.next : next);
  }

  #setIds(list: TaskList, ids: readonly string[], next: string | null): void {
    list.ids = [...new Set(ids)].slice(0, MAX_LISTED);
    list.next = next;
  }

  #refreshIfNeeded(): void {
    const list = this.#active;
    if (list === undefined || list.changedAt + ageOf(list.state) < list.readAt) return;
    // While `problem` is set, `setQueue` repeats the failed request at the next response of `GET /queue`.
    if (list.readAt > Number.NEGATIVE_INFINITY && this.problem.peek() === undefined) this.#refreshSoon();
  }

  #refreshSoon(): void {
    const list = this.#active;
    if (this.#refreshTimer !== undefined || list === undefined || document.visibilityState === 'hidden') return;
    const intervalMs = isSearched(list.filter) ? SEARCH_INTERVAL_MS : REFRESH_INTERVAL_MS;
    const earliest = Math.max(performance.now() + REFRESH_DELAY_MS, list.readAt + intervalMs);
    this.#refreshTimer = setTimeout(() => void this.#refresh(), earliest - performance.now());
  }

  async #refresh(): Promise<void> {
    if (this.#active !== undefined && document.visibilityState === 'visible') {
      await this.#read(this.#active);
    }
    this.#refreshTimer = undefined;
    this.#refreshIfNeeded();
  }

  #prune(): void {
    if (this.#known.size <= MAX_TASKS * 2) return;
    const kept = [...[...this.#lists.values()].map(({ ids }) => ids), ...this.#kept];
    const needed = new Set(kept.flatMap((ids) => [...ids]));
    for (const id of this.#known.keys()) {
      if (this.#known.size <= MAX_TASKS) return;
      if (!needed.has(id)) this.#known.delete(id);
    }
  }
}

const ageOf = (state: State): number => (isUnfinished(state) ? LISTING_AGE_MS : 0);

/** Returns whether a task may belong to a list. The page knows neither all causes nor the tasks that a text or a time selects. */
function belongs({ state, action, cause }: BoardTask, { state: listed, filter }: TaskList): boolean {
  // The service lists a task as running from when it is taken, also while it waits for a thread.
  const isListed = state === listed || (listed === 'running' && state === 'queued');
  const has = (wanted: string, value: string | undefined) => wanted === '' || value === undefined || wanted === value;
  return isListed && has(filter.action, action) && has(filter.cause, cause);
}

import { type ListQuery, listState, PAGE_SIZE, type QueueStatus } from './board-api.ts';
import { afterEvent, afterListing, type BoardTask, STATES, type State, type TaskEvent } from './board-task.ts';
import { type Health, healthOf, RateMeter } from './health.ts';
import { LoadedList } from './loaded-list.ts';
import { RenderSchedule } from './render-schedule.ts';

export type { ListQuery } from './board-api.ts';
export type { BoardTask, State } from './board-task.ts';
export type { Health } from './health.ts';

/**
 * Number of tasks to which the store is reduced once it holds twice as many. Listed and kept tasks are never removed.
 */
const MAX_TASKS = 5_000;
/** Delay between an event and the list refresh that it causes. */
const REFRESH_DELAY_MS = 100;
/** Minimum time between two list refreshes that are caused by events. */
const REFRESH_INTERVAL_MS = 1_000;

/** A task and the number of the last event that changed it. */
interface Entry {
  task: BoardTask;
  event: number;
}

/** Tasks by id, lists of tasks by state, and the queue's health, updated by events and by answers of the service. */
export class Store {
  readonly #schedule = new RenderSchedule();
  readonly #entries = new Map<string, Entry>();
  readonly #lists = new Map<State, LoadedList>();
  readonly #kept = new Map<string, number>();
  readonly #gapListeners = new Set<() => void>();
  readonly #rate = new RateMeter();
  #health: Health | undefined;
  #status: QueueStatus | undefined;
  #events = 0;
  /** State whose list was loaded last. Only this list is refreshed. */
  #active: State | undefined;
  #problem: Error | undefined;
  #refreshTimer: ReturnType<typeof setTimeout> | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;

  /** The queue's condition in the latest answer of `GET /queue`. */
  get health(): Health | undefined {
    return this.#health;
  }

  /** Why the last refresh of the list failed. Undefined if it succeeded. */
  get problem(): Error | undefined {
    return this.#problem;
  }

  /**
   * Number of tasks in a state in the latest answer of `GET /queue`. Counts completed tasks since the service started.
   */
  count(state: State): number | undefined {
    const status = this.#status;
    if (status === undefined) return undefined;
    const { waiting: queued, in_flight: running, delayed: retrying, completed, dead: failed } = status;
    return { queued, running, retrying, completed, failed }[state];
  }

  /** Listed tasks of a state. Returns the same array until one of them changes. */
  tasks(state: State): readonly BoardTask[] {
    return this.#lists.get(state)?.tasks ?? [];
  }

  /** Whether older tasks of a state can be loaded. */
  more(state: State): boolean {
    return this.#lists.get(state)?.more ?? false;
  }

  /** Id of the task of a state after which the next older page starts. */
  last(state: State): string | undefined {
    return this.#lists.get(state)?.last;
  }

  get(id: string): BoardTask | undefined {
    return this.#entries.get(id)?.task;
  }

  /** Keeps a task in memory. @returns a function that lets the store remove the task again */
  keep(id: string): () => void {
    this.#kept.set(id, (this.#kept.get(id) ?? 0) + 1);
    return () => {
      const uses = (this.#kept.get(id) ?? 1) - 1;
      if (uses > 0) this.#kept.set(id, uses);
      else this.#kept.delete(id);
    };
  }

  /**
   * Loads the newest page of a state's tasks or, with `query.before`, the next page of older tasks. After that, events
   * update the list until another state is loaded.
   *
   * @throws {Refused | Unreachable}
   */
  async load(state: State, query: ListQuery = {}): Promise<{ more: boolean }> {
    const { before, ...filter } = query;
    this.#active = state;
    let list = this.#lists.get(state);
    if (list === undefined || !isSameFilter(list.query, filter)) {
      list = new LoadedList(state, filter, { find: (id) => this.get(id), isKept: (id) => this.#kept.has(id) });
      this.#lists.set(state, list);
    }
    await this.#fetch(list, before);
    return { more: list.more };
  }

  /** Calls `listener` after changes, at most ten times a second, and not while the page is hidden. */
  subscribe(listener: () => void): () => void {
    return this.#schedule.subscribe(listener);
  }

  /** Schedules a call of the subscribers, as if a task had changed. */
  requestRender(): void {
    this.#schedule.request();
  }

  /** Calls `listener` when events were missed. @returns a function that unsubscribes */
  onGap(listener: () => void): () => void {
    this.#gapListeners.add(listener);
    return () => this.#gapListeners.delete(listener);
  }

  /** Updates the tasks and lists. */
  readonly apply = (events: readonly TaskEvent[]): void => {
    for (const event of events) {
      this.#events += 1;
      const task = afterEvent(this.get(event.id), event);
      // Deleted first, so that the map's order is the order of the last events.
      this.#entries.delete(event.id);
      if (task !== undefined) this.#entries.set(event.id, { task, event: this.#events });
      for (const list of this.#lists.values()) list.update(event.id);
    }
    this.#prune();
    if (this.#activeList?.isIncomplete) this.#refreshSoon();
    this.#schedule.request();
  };

  /** Updates the counts and the queue's health from an answer of `GET /queue`. */
  readonly setQueue = (status: QueueStatus): void => {
    this.#status = status;
    this.#health = healthOf(status, this.#rate.add(status.completed, performance.now()));
    if (this.#problem !== undefined) this.#refreshSoon();
    this.#schedule.request();
  };

  /** Reads the active list again and discards the others, because events were missed. */
  readonly reload = (): void => {
    for (const state of STATES) if (state !== this.#active) this.#lists.delete(state);
    this.#refreshSoon();
    for (const listener of this.#gapListeners) listener();
  };

  get #activeList(): LoadedList | undefined {
    return this.#active && this.#lists.get(this.#active);
  }

  async #fetch(list: LoadedList, before?: string): Promise<void> {
    const mark = this.#events;
    if (before === undefined) this.#refreshedAt = performance.now();
    else list.makeRoom();
    const fetched = await this.#list(list, before);
    if (this.#lists.get(list.state) !== list) return;
    const page = fetched.filter((task) => this.#merge(task, mark)).map(({ id }) => id);
    const more = fetched.length >= PAGE_SIZE;
    const added = list.tasks.filter(({ id }) => (this.#entries.get(id)?.event ?? 0) > mark).map(({ id }) => id);
    if (before === undefined) list.replace(page, more, added);
    else list.append(before, page, more);
    this.#schedule.request();
  }

  /** Requests a page. If the newest page cannot be read, stores the error in `problem`. */
  async #list({ state, query }: LoadedList, before: string | undefined): Promise<BoardTask[]> {
    if (before !== undefined) return listState(state, { ...query, before });
    try {
      const page = await listState(state, query);
      this.#problem = undefined;
      return page;
    } catch (error) {
      this.#problem = error as Error;
      this.#schedule.request();
      throw error;
    }
  }

  /**
   * Stores a listed task. Data from events that arrived after the listing was requested is kept.
   *
   * @returns whether the task is still in the state of the listing
   */
  #merge(listed: BoardTask, mark: number): boolean {
    const entry = this.#entries.get(listed.id);
    const isNewer = entry !== undefined && entry.event > mark;
    const task = afterListing(entry?.task, listed, isNewer);
    this.#entries.set(listed.id, { task, event: entry?.event ?? 0 });
    return task.state === listed.state;
  }

  #refreshSoon(): void {
    if (this.#refreshTimer !== undefined || this.#activeList === undefined) return;
    const earliest = Math.max(performance.now() + REFRESH_DELAY_MS, this.#refreshedAt + REFRESH_INTERVAL_MS);
    this.#refreshTimer = setTimeout(() => void this.#refresh(), earliest - performance.now());
  }

  async #refresh(): Promise<void> {
    const list = this.#activeList;
    // Nothing is requested while the page is hidden.
    if (list !== undefined && document.visibilityState === 'visible') {
      await this.#fetch(list).catch(() => {
        // The error is stored in `problem`. The next answer of `GET /queue` causes another attempt.
      });
    }
    this.#refreshTimer = undefined;
    if (this.#problem === undefined && this.#activeList?.isIncomplete) this.#refreshSoon();
  }

  #prune(): void {
    if (this.#entries.size <= MAX_TASKS * 2) return;
    const listed = new Set([...this.#lists.values()].flatMap(({ tasks }) => tasks.map(({ id }) => id)));
    for (const id of this.#entries.keys()) {
      if (this.#entries.size <= MAX_TASKS) return;
      if (!listed.has(id) && !this.#kept.has(id)) this.#entries.delete(id);
    }
  }
}

function isSameFilter(one: ListQuery, other: ListQuery): boolean {
  return one.action === other.action && one.reason === other.reason;
}

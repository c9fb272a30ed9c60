import { type ListQuery, listState, PAGE_SIZE, type QueueStatus } from './board-api.ts';
import { type BoardTask, STATES, type State, type TaskEvent } from './board-task.ts';
import { type Health, healthOf, RateMeter } from './health.ts';
import { KnownTasks } from './known-tasks.ts';
import { LoadedList } from './loaded-list.ts';
import { RenderSchedule } from './render-schedule.ts';

export type { ListQuery } from './board-api.ts';
export type { BoardTask, State } from './board-task.ts';
export type { Health } from './health.ts';

/** Delay between an event and the list refresh that it causes. */
const REFRESH_DELAY_MS = 100;
/** Minimum time between two list refreshes that are caused by events. */
const REFRESH_INTERVAL_MS = 1_000;

/**
 * Tasks by id, lists of tasks by state, and the queue's health, updated by events and by answers of the service.
 * Its bounds are those of {@link KnownTasks} and {@link LoadedList}.
 */
export class Store {
  readonly #schedule = new RenderSchedule();
  readonly #known = new KnownTasks();
  readonly #lists = new Map<State, LoadedList>();
  readonly #kept = new Map<string, number>();
  readonly #gapListeners = new Set<() => void>();
  readonly #rate = new RateMeter();
  #health: Health | undefined;
  #status: QueueStatus | undefined;
  /** Whether events were missed since the active list was last requested. */
  #isOutdated = false;
  /** State whose list was loaded last. Only this list is refreshed. */
  #active: State | undefined;
  #problem: Error | undefined;
  #refreshTimer: ReturnType<typeof setTimeout> | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;

  constructor() {
    document.addEventListener('visibilitychange', () => this.#refreshIfNeeded());
  }

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
    return this.#known.get(id);
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
      this.#known.apply(event);
      for (const list of this.#lists.values()) list.update(event.id);
    }
    this.#known.prune(() => this.#neededIds());
    this.#refreshIfNeeded();
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
    this.#isOutdated = true;
    this.#refreshSoon();
    for (const listener of this.#gapListeners) listener();
  };

  get #activeList(): LoadedList | undefined {
    return this.#active && this.#lists.get(this.#active);
  }

  async #fetch(list: LoadedList, before?: string): Promise<void> {
    const isChanged = this.#known.changesSinceListing(list.state);
    if (before === undefined) {
      this.#refreshedAt = performance.now();
      this.#isOutdated = false;
    } else {
      list.makeRoom();
    }
    const fetched = await this.#list(list, before);
    if (this.#lists.get(list.state) !== list) return;
    const page = fetched.flatMap((listed) => {
      const { id, state } = this.#known.merge(listed, isChanged(listed.id));
      // The list of running tasks has queued ones that wait for a thread.
      return state === listed.state || state === list.state ? id : [];
    });
    const more = fetched.length >= PAGE_SIZE;
    const added = list.tasks.map(({ id }) => id).filter(isChanged);
    if (before === undefined) list.replace(page, more, added);
    else list.append(before, page, more);
    // A cached listing and recent events disagree until the next listing.
    const isInDoubt = page.length < fetched.length || added.some((id) => !page.includes(id));
    if (before === undefined) list.isIncomplete ||= isInDoubt;
    this.#refreshIfNeeded();
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

  #refreshIfNeeded(): void {
    // After a failure, the next answer of `GET /queue` causes another attempt.
    const isNeeded = this.#isOutdated || this.#activeList?.isIncomplete;
    if (isNeeded && this.#problem === undefined) this.#refreshSoon();
  }

  /** Schedules a refresh. Nothing is requested while the page is hidden. */
  #refreshSoon(): void {
    if (this.#refreshTimer !== undefined || this.#activeList === undefined) return;
    if (document.visibilityState === 'hidden') return;
    const earliest = Math.max(performance.now() + REFRESH_DELAY_MS, this.#refreshedAt + REFRESH_INTERVAL_MS);
    this.#refreshTimer = setTimeout(() => void this.#refresh(), earliest - performance.now());
  }

  async #refresh(): Promise<void> {
    const list = this.#activeList;
    if (list !== undefined && document.visibilityState === 'visible') {
      await this.#fetch(list).catch(() => {
        // The error is stored in `problem`.
      });
    }
    this.#refreshTimer = undefined;
    this.#refreshIfNeeded();
  }

  #neededIds(): Set<string> {
    const listed = [...this.#lists.values()].flatMap(({ tasks }) => tasks.map(({ id }) => id));
    return new Set([...listed, ...this.#kept.keys()]);
  }
}

function isSameFilter(one: ListQuery, other: ListQuery): boolean {
  return one.action === other.action && one.reason === other.reason;
}

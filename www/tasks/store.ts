import { type ListQuery, listState, PAGE_SIZE, type QueueStatus } from './board-api.ts';
import { afterEvent, type BoardTask, STATES, type State, type TaskEvent } from './board-task.ts';
import { type Health, healthOf, RateMeter } from './health.ts';
import { LoadedList } from './loaded-list.ts';
import { RenderSchedule } from './render-schedule.ts';

export type { ListQuery } from './board-api.ts';
export type { BoardTask, State } from './board-task.ts';
export type { Health } from './health.ts';

/** Number of tasks in memory above which those that are neither listed nor kept are removed, oldest first. */
const MAX_TASKS = 5_000;
/** Delay between an event and the listing that completes it. */
const REFRESH_DELAY_MS = 100;
/** Shortest time between two listings that events cause. */
const REFRESH_INTERVAL_MS = 1_000;

/** A task and the number of the last event that changed it. */
interface Entry {
  task: BoardTask;
  event: number;
}

/**
 * Tasks by id, lists of tasks by state, and the queue's health. Events and summaries fill it. Holds at most
 * {@link MAX_TASKS} tasks in addition to those that are listed or kept.
 */
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

  /** The queue's condition by the last answer of `GET /queue`. */
  get health(): Health | undefined {
    return this.#health;
  }

  /** Why the last refresh of the list failed. Undefined if it succeeded. */
  get problem(): Error | undefined {
    return this.#problem;
  }

  /** Number of tasks in a state by the last answer of `GET /queue`. Completed tasks are counted since the service started. */
  count(state: State): number | undefined {
    const status = this.#status;
    if (status === undefined) return undefined;
    const { waiting: queued, in_flight: running, delayed: retrying, completed, dead: failed } = status;
    return { queued, running, retrying, completed, failed }[state];
  }

  /** Listed tasks of a state, in the order of the service. The same array until one of them changes. */
  tasks(state: State): readonly BoardTask[] {
    return this.#lists.get(state)?.tasks ?? [];
  }

  get(id: string): BoardTask | undefined {
    return this.#entries.get(id)?.task;
  }

  /** Keeps a task in memory and, while its state fits, in its list. @returns a function that ends this */
  keep(id: string): () => void {
    this.#kept.set(id, (this.#kept.get(id) ?? 0) + 1);
    return () => {
      const uses = (this.#kept.get(id) ?? 1) - 1;
      if (uses > 0) this.#kept.set(id, uses);
      else this.#kept.delete(id);
    };
  }

  /**
   * Loads the newest page of a state, or with `query.before` the page of older tasks, which is appended. From then on,
   * events update the list, and refreshes complete it until another state is loaded.
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

  /** Calls the subscribers soon, as if a task had changed. */
  requestRender(): void {
    this.#schedule.request();
  }

  /** Calls `listener` when events were missed, so that what is shown has to be read again. The store reads its list itself. */
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

  /** Takes an answer of `GET /queue`. */
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
    const fetched = await this.#list(list, before);
    if (this.#lists.get(list.state) !== list) return;
    const page = fetched.filter((task) => this.#merge(task, mark)).map(({ id }) => id);
    const more = fetched.length >= PAGE_SIZE;
    const added = list.tasks.filter(({ id }) => (this.#entries.get(id)?.event ?? 0) > mark).map(({ id }) => id);
    if (before === undefined) list.replace(page, more, added);
    else list.append(page, more);
    this.#schedule.request();
  }

  /** Requests a page, and notes whether the newest page could be read. */
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
   * Stores a listed task. The state of a task that an event has changed since the listing was requested is kept.
   *
   * @returns whether the task is still in the state of the listing
   */
  #merge(listed: BoardTask, mark: number): boolean {
    const entry = this.#entries.get(listed.id);
    const isNewer = entry !== undefined && entry.event > mark;
    const task = isNewer ? { ...listed, ...entry.task } : { ...listed, ...preciseTimes(entry?.task, listed) };
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
    // While the page is hidden, nothing is read. The page is brought up to date when it is shown.
    if (list !== undefined && document.visibilityState === 'visible') {
      await this.#fetch(list).catch(() => {
        // `problem` tells why. The next answer of `GET /queue` causes another attempt.
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

/** Returns the times that events have reported in milliseconds and the listing only in whole seconds. */
function preciseTimes(known: BoardTask | undefined, listed: BoardTask): Partial<BoardTask> {
  const times: Partial<BoardTask> = {};
  for (const name of ['acceptedAtMs', 'endedAtMs'] as const) {
    const precise = known?.[name];
    const isSame = precise !== undefined && Math.floor(precise / 1000) === Math.floor((listed[name] ?? 0) / 1000);
    if (isSame) times[name] = precise;
  }
  return times;
}

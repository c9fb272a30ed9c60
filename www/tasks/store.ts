import { type ReadonlySignal, signal } from '@preact/signals';
import type { QueueStatus } from '../client/queue-api.ts';
import { type ListQuery, listState, PAGE_SIZE } from './board-api.ts';
import { type BoardTask, STATES, type State, type TaskEvent } from './board-task.ts';
import { type Health, healthOf, RateMeter } from './health.ts';
import { KnownTasks } from './known-tasks.ts';
import { LoadedList } from './loaded-list.ts';
import { RenderSchedule } from './render-schedule.ts';

export type { ListQuery } from './board-api.ts';
export type { BoardTask, State } from './board-task.ts';
export type { Health } from './health.ts';

const REFRESH_DELAY_MS = 100;
const REFRESH_INTERVAL_MS = 1_000;

/** Tasks, lists of tasks by state, and the queue's health, updated by events and responses of the service. */
export class Store {
  readonly #schedule = new RenderSchedule();
  readonly #version = signal(0);
  readonly #known = new KnownTasks();
  readonly #lists = new Map<State, LoadedList>();
  readonly #kept = new Map<string, number>();
  readonly #gapListeners = new Set<() => void>();
  readonly #rate = new RateMeter();
  #health: Health | undefined;
  #status: QueueStatus | undefined;
  #isOutdated = false;
  /** Task state whose list is requested again after missed events. */
  #active: State | undefined;
  #problem: Error | undefined;
  #refreshTimer: ReturnType<typeof setTimeout> | undefined;
  #refreshedAt = Number.NEGATIVE_INFINITY;

  constructor() {
    document.addEventListener('visibilitychange', () => this.#refreshIfNeeded());
    this.subscribe(() => {
      this.#version.value += 1;
    });
  }

  /** Changes with the store, at most ten times per second. A view that reads it is rendered again. */
  get version(): ReadonlySignal<number> {
    return this.#version;
  }

  get health(): Health | undefined {
    return this.#health;
  }

  /** Error of the last list request, or undefined if the request succeeded. */
  get problem(): Error | undefined {
    return this.#problem;
  }

  /** Number of tasks in a state. Completed tasks are counted since the service's start. */
  count(state: State): number | undefined {
    const status = this.#status;
    if (status === undefined) return undefined;
    const { scheduled, waiting: queued, limited = 0, in_flight: running, delayed: retrying } = status;
    const { completed, dead: failed } = status;
    return { scheduled, queued, limited, running, retrying, completed, failed }[state];
  }

  /** Loaded tasks in a state. The array stays the same object until one of its tasks changes. */
  tasks(state: State): readonly BoardTask[] {
    return this.#lists.get(state)?.tasks ?? [];
  }

  more(state: State): boolean {
    return this.#lists.get(state)?.more ?? false;
  }

  /** Whether the service has older tasks in a state than the loaded ones. */
  hasOlder(state: State): boolean {
    return this.#lists.get(state)?.hasOlder ?? false;
  }

  /** Id of the last loaded task, after which the next page of older tasks starts. */
  last(state: State): string | undefined {
    return this.#lists.get(state)?.last;
  }

  get(id: string): BoardTask | undefined {
    return this.#known.get(id);
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

  /** Loads the newest tasks in a state, or tasks older than `query.before`. @throws {ServiceError | UnreachableError} */
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

  /** Calls `listener` after changes, at most ten times per second, and not while the page is hidden. */
  subscribe(listener: () => void): () => void {
    return this.#schedule.subscribe(listener);
  }

  requestRender(): void {
    this.#schedule.request();
  }

  /** Calls `listener` when events were missed. @returns a function that unsubscribes */
  onGap(listener: () => void): () => void {
    this.#gapListeners.add(listener);
    return () => this.#gapListeners.delete(listener);
  }

  readonly apply = (events: readonly TaskEvent[]): void => {
    for (const event of events) {
      this.#known.apply(event);
      for (const list of this.#lists.values()) list.update(event.id);
    }
    this.#known.prune(() => this.#neededIds());
    this.#refreshIfNeeded();
    this.#schedule.request();
  };

  readonly setQueue = (status: QueueStatus): void => {
    // No event tells that a limit holds a task, or no longer does.
    if (this.#active === 'limited' && this.#isChanged(status)) this.#isOutdated = true;
    this.#status = status;
    this.#health = healthOf(status, this.#rate.add(status.completed, performance.now()));
    if (this.#problem !== undefined || this.#isOutdated) this.#refreshSoon();
    this.#schedule.request();
  };

  #isChanged({ accepted, limited, waiting, in_flight }: QueueStatus): boolean {
    const earlier = this.#status;
    const counts = [earlier?.accepted, earlier?.limited, earlier?.waiting, earlier?.in_flight];
    return [accepted, limited, waiting, in_flight].some((count, index) => count !== counts[index]);
  }

  /** Requests the current list again and discards all other lists, because events were missed. */
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
      // In the service's list of running tasks, `listed.state` is `queued` for a task that waits for a thread.
      return state === listed.state || state === list.state ? id : [];
    });
    const more = fetched.length >= PAGE_SIZE;
    const added = list.ids.filter(isChanged);
    if (before === undefined) list.replace(page, more, added);
    else list.append(before, page, more);
    // If the response contradicts newer events, the list must be requested again.
    const isInDoubt = page.length < fetched.length || added.some((id) => !page.includes(id));
    if (before === undefined) list.isIncomplete ||= isInDoubt;
    this.#refreshIfNeeded();
    this.#schedule.request();
  }

  /** Requests a page of tasks. Without `before`, stores any error in `#problem`. @throws {ServiceError | UnreachableError} */
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
    const isNeeded = this.#isOutdated || this.#activeList?.isIncomplete;
    // While `#problem` is set, `setQueue` repeats the failed request at the next response of `GET /queue`.
    if (isNeeded && this.#problem === undefined) this.#refreshSoon();
  }

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
        // `#list` has stored the error in `problem`.
      });
    }
    this.#refreshTimer = undefined;
    this.#refreshIfNeeded();
  }

  #neededIds(): Set<string> {
    const listed = [...this.#lists.values()].flatMap(({ ids }) => ids);
    return new Set([...listed, ...this.#kept.keys()]);
  }
}

function isSameFilter(one: ListQuery, other: ListQuery): boolean {
  return one.action === other.action && one.reason === other.reason;
}

import { type ListQuery, PAGE_SIZE } from './board-api.ts';
import type { BoardTask, State } from './board-task.ts';

export const MAX_LISTED = 1_000;

/** Ids of the loaded tasks in one state, in the service's order. */
export class LoadedList {
  readonly state: State;
  readonly query: ListQuery;
  more = false;
  /** Whether the list must be requested again, because events do not contain the payload and result of tasks. */
  isIncomplete = false;
  readonly #find: (id: string) => BoardTask | undefined;
  readonly #isKept: (id: string) => boolean;
  /** Ids of the tasks at the start of the service's list, with no task omitted. */
  #ids: string[] = [];
  /** Ids of tasks further down in the service's list, which stay listed because `#isKept` is true for them. */
  #detached: string[] = [];
  /** Ids of completed tasks whose results are not known yet, at most {@link PAGE_SIZE}. */
  readonly #awaited = new Set<string>();
  #limit = PAGE_SIZE;
  #tasks: readonly BoardTask[] | undefined;

  constructor(
    state: State,
    query: ListQuery,
    source: { find: (id: string) => BoardTask | undefined; isKept: (id: string) => boolean },
  ) {
    this.state = state;
    this.query = query;
    this.#find = source.find;
    this.#isKept = source.isKept;
  }

  /** Loaded tasks. The array stays the same object until the list or one of its tasks changes. */
  get tasks(): readonly BoardTask[] {
    this.#tasks ??= [...this.#ids, ...this.#detached].map(this.#find).filter((task) => task !== undefined);
    return this.#tasks;
  }

  /** Ids of the listed tasks, and of tasks that are listed as soon as their results are known. */
  get ids(): string[] {
    return [...this.#ids, ...this.#detached, ...this.#awaited];
  }

  /** Whether the service has older tasks than the listed ones, also if the list's limit keeps them from being loaded. */
  get hasOlder(): boolean {
    return this.more || this.#ids.length >= MAX_LISTED;
  }

  /** Id of the task after which the next page of older tasks starts. */
  get last(): string | undefined {
    return this.#ids.at(-1);
  }

  /** Replaces the newest tasks by `page`. @param added tasks with events since the request, which `page` may lack */
  replace(page: readonly string[], more: boolean, added: readonly string[]): void {
    const before = this.ids;
    const end = this.#ids.indexOf(page.at(-1) ?? '');
    const older = page.length > 0 && end >= 0 && this.#limit > PAGE_SIZE ? this.#ids.slice(end + 1) : [];
    if (older.length === 0) this.#limit = PAGE_SIZE;
    this.more = older.length > 0 ? this.more : more;
    const listed = new Set([...page, ...older]);
    this.#ids = [...listed];
    this.#awaited.clear();
    for (const id of added) if (!listed.has(id)) this.#insert(id);
    this.#detached = before.filter((id) => this.#isKept(id) && this.#belongs(id) && !this.#ids.includes(id));
    this.isIncomplete = false;
    this.#changed();
  }

  /** Raises the list's limit, so that new tasks do not evict the last task during a request for older tasks. */
  makeRoom(): void {
    this.#limit = Math.min(this.#limit + PAGE_SIZE, MAX_LISTED);
  }

  /** Appends the page of tasks older than `before`, unless `before` has left the list since the request. */
  append(before: string, page: readonly string[], more: boolean): void {
    if (!this.#ids.includes(before)) return;
    this.#limit = Math.min(Math.max(this.#limit, this.#ids.length + page.length), MAX_LISTED);
    this.#ids = [...new Set([...this.#ids, ...page])];
    this.#detached = this.#detached.filter((id) => !this.#ids.includes(id));
    this.more = more && this.#ids.length < MAX_LISTED;
    this.#changed();
  }

  /** Inserts, moves or removes a task after an event. */
  update(id: string): void {
    const index = this.#ids.indexOf(id);
    if (index >= 0 && !this.#belongs(id)) {
      this.#ids.splice(index, 1);
      this.isIncomplete ||= this.more;
    } else if (this.#detached.includes(id)) {
      this.#detached = this.#detached.filter((other) => other !== id || this.#belongs(id));
    } else if (index < 0 && this.#belongs(id)) {
      this.#insert(id);
    } else if (index < 0) {
      return;
    }
    this.#changed();
  }

  #belongs(id: string): boolean {
    const task = this.#find(id);
    if (task?.state !== this.state) return false;
    const { action = task.action, reason = task.reason } = this.query;
    return task.action === action && task.reason === reason;
  }

  #insert(id: string): void {
    const index = this.#indexFor(id);
    if (index === this.#ids.length && this.more) return;
    const task = this.#find(id);
    const isCompleted = this.state === 'completed';
    const isPartlyKnown = task?.payload === undefined || (isCompleted && task.result === undefined);
    this.isIncomplete ||= isPartlyKnown;
    if (isCompleted && isPartlyKnown) this.#await(id);
    else this.#ids.splice(index, 0, id);
  }

  #await(id: string): void {
    this.#awaited.add(id);
    const [first = id] = this.#awaited;
    if (this.#awaited.size > PAGE_SIZE) this.#awaited.delete(first);
  }

  /** Returns the index at which a task is inserted into `#ids` to keep the service's order. */
  #indexFor(id: string): number {
    const task = this.#find(id);
    const isBehind = (other: BoardTask | undefined): boolean => {
      if (this.state === 'failed') return true;
      const isLater = this.state === 'scheduled' || this.state === 'retrying';
      if (isLater) return (other?.dueAtMs ?? 0) > (task?.dueAtMs ?? 0);
      if (this.state === 'completed') return second(other?.acceptedAtMs ?? 0) <= second(task?.acceptedAtMs ?? Infinity);
      return false;
    };
    const index = this.#ids.findIndex((other) => isBehind(this.#find(other)));
    return index < 0 ? this.#ids.length : index;
  }

  #changed(): void {
    this.#tasks = undefined;
    const beyond = [...this.#ids.splice(this.#limit), ...this.#detached];
    this.#detached = beyond.filter(this.#isKept);
    if (this.#ids.length < this.#limit) return;
    this.more = this.#limit < MAX_LISTED && (this.more || this.#detached.length < beyond.length);
  }
}

/** Drops the milliseconds of a time, because the service orders tasks by whole seconds. */
function second(ms: number): number {
  return Math.floor(ms / 1000);
}

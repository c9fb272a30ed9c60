import { afterEvent, afterListing, type BoardTask, type State, type TaskEvent } from './board-task.ts';

/** If twice as many tasks are stored, the oldest are removed until this number is reached. */
const MAX_TASKS = 5_000;
/** Maximum age in milliseconds of a listing of unfinished tasks, which nodes that share a queue cache. */
const LISTING_AGE_MS = 1_500;

/** Task, with the number and time of the last event that changed it. */
interface Entry {
  task: BoardTask;
  event: number;
  eventAt: number;
}

/** Tasks by id, as reported by events and listings. The number of tasks is bounded. */
export class KnownTasks {
  readonly #entries = new Map<string, Entry>();
  #events = 0;

  get(id: string): BoardTask | undefined {
    return this.#entries.get(id)?.task;
  }

  apply(event: TaskEvent): void {
    this.#events += 1;
    const task = afterEvent(this.get(event.id), event);
    // The entry is deleted first, so that the map is ordered by the last event of each task.
    this.#entries.delete(event.id);
    if (task !== undefined) this.#entries.set(event.id, { task, event: this.#events, eventAt: performance.now() });
  }

  /**
   * Returns a function that returns whether a task has changed since the service read a listing. Must be called before
   * the
   * listing is requested, because events may arrive before the response.
   */
  changesSinceListing(state: State): (id: string) => boolean {
    const events = this.#events;
    const isCached = state !== 'completed' && state !== 'failed';
    const readAt = isCached ? performance.now() - LISTING_AGE_MS : Number.POSITIVE_INFINITY;
    return (id) => {
      const entry = this.#entries.get(id);
      return entry !== undefined && (entry.event > events || entry.eventAt > readAt);
    };
  }

  /**
   * Stores a listed task. @param isNewer whether the known task is newer than the listing, so that its fields are kept
   */
  merge(listed: BoardTask, isNewer: boolean): BoardTask {
    const entry = this.#entries.get(listed.id);
    const task = afterListing(entry?.task, listed, isNewer);
    this.#entries.set(listed.id, { event: 0, eventAt: Number.NEGATIVE_INFINITY, ...entry, task });
    return task;
  }

  /**
   * Removes the oldest tasks if there are too many. @param neededIds returns the ids of tasks that must not be removed
   */
  prune(neededIds: () => ReadonlySet<string>): void {
    if (this.#entries.size <= MAX_TASKS * 2) return;
    const needed = neededIds();
    for (const id of this.#entries.keys()) {
      if (this.#entries.size <= MAX_TASKS) return;
      if (!needed.has(id)) this.#entries.delete(id);
    }
  }
}

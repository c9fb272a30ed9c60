import { afterEvent, afterListing, type BoardTask, type State, type TaskEvent } from './board-task.ts';

/** Number of tasks to which the known tasks are reduced once there are twice as many. Needed tasks are never removed. */
const MAX_TASKS = 5_000;
/** Maximum age of a listing of unfinished tasks, because nodes that share a queue cache these listings. */
const LISTING_AGE_MS = 1_500;

/** A task, and the number and time of the last event that changed it. */
interface Entry {
  task: BoardTask;
  event: number;
  eventAt: number;
}

/** Tasks by id, as events and listings report them. Holds at most twice {@link MAX_TASKS} tasks and those that are needed. */
export class KnownTasks {
  readonly #entries = new Map<string, Entry>();
  #events = 0;

  get(id: string): BoardTask | undefined {
    return this.#entries.get(id)?.task;
  }

  apply(event: TaskEvent): void {
    this.#events += 1;
    const task = afterEvent(this.get(event.id), event);
    // Deleted first, so that the map's order is the order of the last events.
    this.#entries.delete(event.id);
    if (task !== undefined) this.#entries.set(event.id, { task, event: this.#events, eventAt: performance.now() });
  }

  /**
   * Returns a function that tells whether an event may have changed a task after the service read a listing. Called when
   * the listing is requested.
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

  /** Stores a listed task. @param isNewer whether the known state is newer than the listing, so that it is kept */
  merge(listed: BoardTask, isNewer: boolean): BoardTask {
    const entry = this.#entries.get(listed.id);
    const task = afterListing(entry?.task, listed, isNewer);
    this.#entries.set(listed.id, { event: 0, eventAt: Number.NEGATIVE_INFINITY, ...entry, task });
    return task;
  }

  /** Removes the oldest tasks that are not needed, if there are too many. @param neededIds called only then */
  prune(neededIds: () => ReadonlySet<string>): void {
    if (this.#entries.size <= MAX_TASKS * 2) return;
    const needed = neededIds();
    for (const id of this.#entries.keys()) {
      if (this.#entries.size <= MAX_TASKS) return;
      if (!needed.has(id)) this.#entries.delete(id);
    }
  }
}

import { afterEvent, afterListing, type BoardTask, type State, type TaskEvent } from './board-task.ts';

/** When twice this number of tasks is stored, the oldest tasks are removed until this number is left. */
const MAX_TASKS = 5_000;
/** Maximum age of the list in a response with unfinished tasks. Nodes that share a queue send a cached list. */
const LISTING_AGE_MS = 1_500;

interface Entry {
  task: BoardTask;
  event: number;
  eventAt: number;
}

/** Tasks by id, as reported by events and responses. The number of tasks is bounded. */
export class KnownTasks {
  readonly #entries = new Map<string, Entry>();
  #events = 0;

  get(id: string): BoardTask | undefined {
    return this.#entries.get(id)?.task;
  }

  apply(event: TaskEvent): void {
    this.#events += 1;
    const task = afterEvent(this.get(event.id), event);
    // A Map keeps the position of an existing key, so the key is deleted first to order the map by last event.
    this.#entries.delete(event.id);
    if (task !== undefined) this.#entries.set(event.id, { task, event: this.#events, eventAt: performance.now() });
  }

  /** Call before requesting a list. The returned function tells whether a task has changed since the list was read. */
  changesSinceListing(state: State): (id: string) => boolean {
    const events = this.#events;
    const isCached = state !== 'completed' && state !== 'failed';
    const readAt = isCached ? performance.now() - LISTING_AGE_MS : Number.POSITIVE_INFINITY;
    return (id) => {
      const entry = this.#entries.get(id);
      return entry !== undefined && (entry.event > events || entry.eventAt > readAt);
    };
  }

  /** Merges a listed task into the known task with the same id. @param isNewer whether the known task is newer */
  merge(listed: BoardTask, isNewer: boolean): BoardTask {
    const entry = this.#entries.get(listed.id);
    const task = afterListing(entry?.task, listed, isNewer);
    this.#entries.set(listed.id, { event: 0, eventAt: Number.NEGATIVE_INFINITY, ...entry, task });
    return task;
  }

  /** Removes the oldest tasks if there are too many. @param neededIds returns the ids that must not be removed */
  prune(neededIds: () => ReadonlySet<string>): void {
    if (this.#entries.size <= MAX_TASKS * 2) return;
    const needed = neededIds();
    for (const id of this.#entries.keys()) {
      if (this.#entries.size <= MAX_TASKS) return;
      if (!needed.has(id)) this.#entries.delete(id);
    }
  }
}

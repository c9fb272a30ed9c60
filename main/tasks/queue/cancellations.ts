import type { Backlog, Entry } from './backlog.ts';
import { subjectOf } from './event-subject.ts';
import type { Delivery, TaskEvent } from './queue.ts';
import type { Journal } from './sqlite-journal.ts';

interface CancellationsOptions {
  backlog: Backlog;
  /** Returns the journal that stores changes, or undefined if the queue is in memory only. */
  journal: () => Pick<Journal, 'cancel' | 'update'> | undefined;
  onEvent: (event: TaskEvent) => void;
  /** Called if a message must be delivered after all, because its cancellation could not be stored. */
  onReady: () => void;
}

/** Cancels messages of a local queue. */
export class Cancellations {
  count = 0;
  readonly #options: CancellationsOptions;
  readonly #recording = new Map<string, Promise<'cancelled'>>();
  #listener: (delivery: Delivery) => boolean = () => false;

  constructor(options: CancellationsOptions) {
    this.#options = options;
  }

  onCancel(listener: (delivery: Delivery) => boolean): () => void {
    this.#listener = listener;
    return () => {
      if (this.#listener === listener) this.#listener = () => false;
    };
  }

  /** Cancels a message as `Queue.cancel` does. `isTaken` returns whether `take` has already returned a delivery. */
  async cancel(id: string, isTaken: (delivery: Delivery) => boolean): Promise<'cancelled' | 'running' | undefined> {
    const { backlog } = this.#options;
    const recording = this.#recording.get(id);
    if (recording !== undefined) return recording;
    const entry = backlog.get(id);
    if (entry === undefined) return undefined;
    const delivery = backlog.deliveryOf(entry);
    if (delivery !== undefined && isTaken(delivery) && !this.#listener(delivery)) return 'running';
    if (delivery !== undefined) backlog.endDelivery(delivery);
    const cancelled = this.#record(entry, delivery !== undefined).finally(() => this.#recording.delete(id));
    this.#recording.set(id, cancelled);
    return cancelled;
  }

  note(entry: Entry): void {
    this.count += 1;
    this.#options.onEvent({ event: 'cancelled', ...subjectOf(entry) });
  }

  async #record(entry: Entry, wasInFlight: boolean): Promise<'cancelled'> {
    const { backlog, journal, onReady } = this.#options;
    backlog.startRemoval(entry);
    try {
      await journal()?.cancel(entry);
    } catch (error) {
      backlog.undoRemoval(entry);
      if (wasInFlight)
        journal()
          ?.update(entry, false)
          .catch(() => {});
      onReady();
      throw error;
    }
    backlog.finishRemoval(entry);
    this.note(entry);
    return 'cancelled';
  }
}

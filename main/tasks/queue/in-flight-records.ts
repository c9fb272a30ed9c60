import type { Backlog } from './backlog.ts';
import type { Delivery } from './queue.ts';
import type { Journal } from './sqlite-journal.ts';

/** Records in a journal which messages are in flight. */
export class InFlightRecords {
  readonly #backlog: Backlog;
  readonly #release: (delivery: Delivery) => void;
  readonly #recording = new Set<Delivery>();

  constructor(backlog: Backlog, release: (delivery: Delivery) => void) {
    this.#backlog = backlog;
    this.#release = release;
  }

  /** Whether a delivery is still being recorded, so that `take` has not returned the delivery yet. */
  has(delivery: Delivery): boolean {
    return this.#recording.has(delivery);
  }

  /** Stores that deliveries are in flight. Returns the deliveries not cancelled meanwhile. Releases all on failure. */
  async record(deliveries: Delivery[], journal: Pick<Journal, 'update'>): Promise<Delivery[]> {
    const backlog = this.#backlog;
    const entries = deliveries.flatMap((delivery) => backlog.entryOf(delivery) ?? []);
    for (const delivery of deliveries) this.#recording.add(delivery);
    try {
      // A suspect is already stored as being in flight.
      await Promise.all(entries.map((entry) => (entry.suspect ? undefined : journal.update(entry, true))));
      return deliveries.filter((delivery) => backlog.entryOf(delivery) !== undefined);
    } catch (error) {
      for (const delivery of deliveries) this.#release(delivery);
      throw error;
    } finally {
      for (const delivery of deliveries) this.#recording.delete(delivery);
    }
  }
}

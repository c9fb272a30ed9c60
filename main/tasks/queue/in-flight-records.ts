import type { Backlog } from './backlog.ts';
import type { Delivery } from './queue.ts';
import type { Journal } from './sqlite-journal.ts';

/** Records in a journal which messages are in flight. */
export class InFlightRecords {
  readonly #backlog: Backlog;
  readonly #release: (delivery: Delivery) => void;
  /** Deliveries that are being recorded. */
  readonly #recording = new Set<Delivery>();

  /** @param release releases a delivery that cannot be recorded */
  constructor(backlog: Backlog, release: (delivery: Delivery) => void) {
    this.#backlog = backlog;
    this.#release = release;
  }

  /** Whether a delivery is still being recorded and has not yet been returned by `take`. */
  has(delivery: Delivery): boolean {
    return this.#recording.has(delivery);
  }

  /**
   * Records that messages are in flight. Skips suspects, which are stored as suspects already.
   *
   * @returns the deliveries that were not cancelled while they were recorded
   * @throws {Error} if the journal cannot write; the deliveries are then released
   */
  async record(deliveries: Delivery[], journal: Pick<Journal, 'update'>): Promise<Delivery[]> {
    const backlog = this.#backlog;
    const entries = deliveries.flatMap((delivery) => backlog.entryOf(delivery) ?? []);
    for (const delivery of deliveries) this.#recording.add(delivery);
    try {
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

import type { KeyRecord } from '../../../db/sqlite/queued-messages.ts';
import { type IdempotencyKey, KeyInUse, KeyReused } from './queue.ts';

/** Lifetime of an idempotency key: one day. */
export const KEY_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** Accepted submissions by idempotency key. Keys expire after a day. Above `maxKeys`, the oldest are evicted. */
export class IdempotencyKeys {
  readonly #maxKeys: number;
  /** Records by key, in order of acceptance. */
  readonly #records = new Map<string, KeyRecord>();
  /** Keys of submissions whose acceptance is still being written. */
  readonly #pending = new Set<string>();
  /** Evicted keys whose stored records have not been deleted yet. */
  readonly #evicted = new Set<string>();

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#records.size;
  }

  /** Returns the id of the task accepted for a key, or undefined if the key is new or expired. @throws {KeyReused | KeyInUse} */
  taskOf({ key, fingerprint }: IdempotencyKey, now: number): string | undefined {
    const record = this.#records.get(key);
    if (record === undefined || now - record.acceptedAt >= KEY_LIFETIME_MS) return undefined;
    if (record.fingerprint !== fingerprint) throw new KeyReused('the idempotency key belongs to another submission');
    if (this.#pending.has(key)) throw new KeyInUse('the submission with this idempotency key is under way');
    return record.taskId;
  }

  /**
   * Adds a submission's key. If `write` rejects, removes the key again and rejects with the same error.
   *
   * @param write stores the submission, and deletes the stored records of the evicted keys
   */
  async accept(record: KeyRecord, write: (evicted: readonly string[]) => Promise<void>): Promise<void> {
    this.#pending.add(record.key);
    this.add(record);
    const evicted = [...this.#evicted];
    try {
      await write(evicted);
      for (const key of evicted) this.#evicted.delete(key);
    } catch (error) {
      this.#records.delete(record.key);
      throw error;
    } finally {
      this.#pending.delete(record.key);
    }
  }

  /** Adds a key. Evicts expired keys, and the oldest keys if there are more than `maxKeys`. */
  add(record: KeyRecord): void {
    this.#records.delete(record.key);
    this.#records.set(record.key, record);
    this.#evicted.delete(record.key);
    for (const { key, acceptedAt } of this.#records.values()) {
      if (this.size <= this.#maxKeys && record.acceptedAt - acceptedAt < KEY_LIFETIME_MS) break;
      this.#records.delete(key);
      this.#evicted.add(key);
    }
  }

  /** Returns the records of accepted submissions, oldest first. */
  list(): KeyRecord[] {
    return [...this.#records.values()].filter(({ key }) => !this.#pending.has(key));
  }
}

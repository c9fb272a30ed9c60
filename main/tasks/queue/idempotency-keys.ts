import type { KeyRecord } from '../../../db/sqlite/queued-messages.ts';
import { type IdempotencyKey, KeyInUse, KeyReused } from './queue.ts';

export const KEY_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** Accepted submissions by idempotency key. Keys expire after a day. Above `maxKeys`, the oldest keys are evicted. */
export class IdempotencyKeys {
  readonly #maxKeys: number;
  readonly #records = new Map<string, KeyRecord>();
  readonly #pending = new Set<string>();
  /** Evicted keys whose records have not been deleted from the database yet. */
  readonly #evicted = new Set<string>();

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#records.size;
  }

  /** Returns the id of the task accepted with a key, or undefined if there is none. @throws {KeyReused | KeyInUse} */
  taskOf({ key, fingerprint }: IdempotencyKey, now: number): string | undefined {
    const record = this.#records.get(key);
    if (record === undefined || now - record.acceptedAt >= KEY_LIFETIME_MS) return undefined;
    if (record.fingerprint !== fingerprint) throw new KeyReused('the idempotency key belongs to another submission');
    if (this.#pending.has(key)) throw new KeyInUse('the submission with this idempotency key is under way');
    return record.taskId;
  }

  /** Adds a key, and removes it if `write` rejects. `write` must delete the stored records of the evicted keys. */
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

  /** Adds a key. Evicts expired keys, and the oldest keys above `maxKeys`. */
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

  list(): KeyRecord[] {
    return [...this.#records.values()].filter(({ key }) => !this.#pending.has(key));
  }
}

import type { KeyRecord } from '../../../db/sqlite/queued-messages.ts';
import { type IdempotencyKey, KeyInUse, KeyReused } from './queue.ts';

/** Lifetime of an idempotency key. */
export const KEY_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** Accepted submissions by idempotency key. Keys are evicted after a day, and the oldest above `maxKeys`. */
export class IdempotencyKeys {
  readonly #maxKeys: number;
  /** Records by key, in the order of acceptance. */
  readonly #records = new Map<string, KeyRecord>();
  /** Keys of submissions whose acceptance is being recorded. */
  readonly #pending = new Set<string>();
  /** Evicted keys whose stored records are not deleted yet. */
  readonly #evicted = new Set<string>();

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#records.size;
  }

  /** Returns the id of the task that was accepted for the same submission, or undefined. @throws {KeyReused | KeyInUse} */
  taskOf({ key, fingerprint }: IdempotencyKey, now: number): string | undefined {
    const record = this.#records.get(key);
    if (record === undefined || now - record.acceptedAt >= KEY_LIFETIME_MS) return undefined;
    if (record.fingerprint !== fingerprint) throw new KeyReused('the idempotency key belongs to another submission');
    if (this.#pending.has(key)) throw new KeyInUse('the submission with this idempotency key is under way');
    return record.taskId;
  }

  /** Adds the key of a submission whose acceptance is being recorded. @returns evicted keys, whose records must be deleted */
  reserve(record: KeyRecord): string[] {
    this.#pending.add(record.key);
    this.add(record);
    return [...this.#evicted];
  }

  /** Ends an acceptance. @param deleted keys whose records were deleted with it; undefined if the submission was not accepted */
  settle(key: string, deleted: readonly string[] | undefined): void {
    this.#pending.delete(key);
    if (deleted === undefined) this.#records.delete(key);
    else for (const each of deleted) this.#evicted.delete(each);
  }

  /** Adds the key of the newest accepted submission. */
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

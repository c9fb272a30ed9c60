import type { KeyRecord } from '../../../db/sqlite/queued-messages.ts';
import { type IdempotencyKey, KeyInUse, KeyReused } from './queue.ts';

/** Time after which an idempotency key is evicted: one day. */
export const KEY_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** Accepted submissions by idempotency key. Keys are evicted after a day. Above `maxKeys`, the oldest keys are evicted. */
export class IdempotencyKeys {
  readonly #maxKeys: number;
  /** Records by key, in the order of acceptance. */
  readonly #records = new Map<string, KeyRecord>();
  /** Keys of submissions for which the write that accepts them is in progress. */
  readonly #pending = new Set<string>();
  /** Evicted keys whose stored records are not deleted yet. */
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

  /** Adds the key of a submission before it is written as accepted. @returns the evicted keys, whose stored records must be deleted */
  reserve(record: KeyRecord): string[] {
    this.#pending.add(record.key);
    this.add(record);
    return [...this.#evicted];
  }

  /** Ends what `reserve` began. @param deleted keys whose stored records were deleted; undefined if the submission was refused */
  settle(key: string, deleted: readonly string[] | undefined): void {
    this.#pending.delete(key);
    if (deleted === undefined) this.#records.delete(key);
    else for (const each of deleted) this.#evicted.delete(each);
  }

  /** Adds a key as the newest, and evicts keys that are expired or above `maxKeys`. */
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

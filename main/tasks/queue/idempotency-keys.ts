import type { KeyRecord } from './journal.ts';
import { type IdempotencyKey, KeyInUse, KeyReused } from './queue.ts';

/** How long a key stands for its submission. */
export const KEY_LIFETIME_MS = 24 * 60 * 60 * 1000;

/** The submissions that named themselves. Past `maxKeys`, and after a day, the oldest are forgotten. */
export class IdempotencyKeys {
  readonly #maxKeys: number;
  /** In the order of acceptance. */
  readonly #records = new Map<string, KeyRecord>();
  /** Keys of submissions that are being taken right now. */
  readonly #underWay = new Set<string>();

  constructor(maxKeys: number) {
    this.#maxKeys = maxKeys;
  }

  get size(): number {
    return this.#records.size;
  }

  /**
   * The id of the task that was accepted under `key` for the same submission.
   *
   * @throws {KeyReused | KeyInUse}
   */
  taskOf({ key, fingerprint }: IdempotencyKey, now: number): string | undefined {
    const record = this.#records.get(key);
    if (record === undefined || now - record.acceptedAt >= KEY_LIFETIME_MS) return undefined;
    if (record.fingerprint !== fingerprint) throw new KeyReused('the idempotency key belongs to another submission');
    if (this.#underWay.has(key)) throw new KeyInUse('the submission with this idempotency key is under way');
    return record.taskId;
  }

  /** Notes a submission that is being taken. @returns the keys that are forgotten by that */
  begin(record: KeyRecord): string[] {
    this.#underWay.add(record.key);
    return this.add(record);
  }

  /** The submission was accepted, or else its key is free again. */
  end(key: string, accepted: boolean): void {
    this.#underWay.delete(key);
    if (!accepted) this.#records.delete(key);
  }

  /** Notes a submission that was accepted, the latest of all. @returns the keys that are forgotten by that */
  add(record: KeyRecord): string[] {
    this.#records.delete(record.key);
    this.#records.set(record.key, record);
    const forgotten: string[] = [];
    for (const { key, acceptedAt } of this.#records.values()) {
      if (this.size <= this.#maxKeys && record.acceptedAt - acceptedAt < KEY_LIFETIME_MS) break;
      this.#records.delete(key);
      forgotten.push(key);
    }
    return forgotten;
  }

  /** Oldest first, without those that are under way. */
  list(): KeyRecord[] {
    return [...this.#records.values()].filter(({ key }) => !this.#underWay.has(key));
  }
}

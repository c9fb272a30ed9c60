import { type IdempotencyKey, KEY_LIFETIME_MS, KeyReused } from '../task-store.ts';
import type { Counters } from './counters.ts';
import type { Database } from './database.ts';

/** Accepted submissions by idempotency key. Writes must run in a transaction. */
export class IdempotencyKeys {
  readonly #database: Database;
  readonly #counters: Pick<Counters, 'keys'>;
  readonly #maxKeys: number;

  constructor(database: Database, counters: Pick<Counters, 'keys'>, maxKeys: number) {
    this.#database = database;
    this.#counters = counters;
    this.#maxKeys = maxKeys;
  }

  count(): number {
    return this.#database.get<{ count: number }>('SELECT count(*) AS count FROM idempotency_keys')?.count ?? 0;
  }

  /** Returns the id of the task accepted with a key, or undefined if there is none. */
  taskOf({ key, fingerprint }: IdempotencyKey, now: number): string | KeyReused | undefined {
    const find = 'SELECT fingerprint, task_id AS taskId FROM idempotency_keys WHERE key = ? AND accepted_at > ?';
    const found = this.#database.get<{ fingerprint: string; taskId: string }>(find, key, now - KEY_LIFETIME_MS);
    return found === undefined || found.fingerprint === fingerprint ? found?.taskId : new KeyReused();
  }

  /** Adds a key. Deletes expired keys, and the oldest above the limit. */
  add({ key, fingerprint }: IdempotencyKey, taskId: string, now: number): void {
    const counters = this.#counters;
    // Replaces an expired record of the key, which is then the newest.
    counters.keys -= this.#database.run('DELETE FROM idempotency_keys WHERE key = ?', key);
    const insert = 'INSERT INTO idempotency_keys (key, fingerprint, task_id, accepted_at) VALUES (?, ?, ?, ?)';
    counters.keys += this.#database.run(insert, key, fingerprint, taskId, now);
    counters.keys -= this.#database.run('DELETE FROM idempotency_keys WHERE accepted_at <= ?', now - KEY_LIFETIME_MS);
    if (counters.keys <= this.#maxKeys) return;
    // By rowid, because the time of the newest key may be the earliest after the clock was set back.
    const oldest = `DELETE FROM idempotency_keys WHERE rowid IN (
      SELECT rowid FROM idempotency_keys ORDER BY rowid LIMIT ?)`;
    counters.keys -= this.#database.run(oldest, counters.keys - this.#maxKeys);
  }
}

import { hash, randomBytes } from 'node:crypto';
import type { StatementSync } from 'node:sqlite';
import type { Database } from './database.ts';

/** Whom an API key belongs to. */
export interface ApiKeyOwner {
  user_id: string;
  role: string;
}

/** A record as it may be shown. */
export interface ApiKeyRecord extends ApiKeyOwner {
  id: number;
  /** The last four characters of the key; none of one that they would give away. */
  ending: string;
  /** Unix seconds. */
  created_at: number;
}

/** What was read of the table, and how to tell that it still holds. */
interface Snapshot {
  /** A connection's own: another one means another connection, maybe of another file. */
  statement: StatementSync;
  version: number;
  /** By the digest of each key. */
  owners: Map<string, ApiKeyOwner>;
}

/**
 * The stored API keys: table `api_keys` of the specification.
 *
 * A key is looked up by a digest with a secret of this process, in memory: how long that takes depends on the digest, which
 * nobody outside can compute, and tells nothing about the keys, as a comparison of the keys themselves would, in an
 * index of the table or elsewhere. What is in memory is read again when anybody has written to the file.
 */
export class ApiKeys {
  readonly #database: Database;
  readonly #secret = randomBytes(32).toString('hex');
  #snapshot: Snapshot | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * The owner of `apiKey`, or undefined where no record has that key.
   *
   * @throws {DatabaseUnavailable} when the database cannot be obtained, any other error when the query fails
   */
  findOwner(apiKey: string): ApiKeyOwner | undefined {
    return this.#owners().get(this.#digest(apiKey));
  }

  /**
   * Makes the demo user (`demo`, role `user`) unless a record of that user exists.
   *
   * @param now Unix seconds, for a record that is made
   * @returns its API key of 32 random characters, and whether this call made it
   */
  ensureDemoUser(now: number): { apiKey: string; created: boolean } {
    const insert = this.#database.statement(
      `INSERT INTO api_keys (api_key, user_id, role, created_at)
       SELECT ?, 'demo', 'user', ? WHERE NOT EXISTS (SELECT 1 FROM api_keys WHERE user_id = 'demo')`,
    );
    const { changes } = insert.run(newKey(), now);
    // The file's version does not tell a connection of what it wrote itself.
    this.#snapshot = undefined;
    const oldest = this.#database.statement("SELECT api_key FROM api_keys WHERE user_id = 'demo' ORDER BY id LIMIT 1");
    return { apiKey: (oldest.get() as { api_key: string }).api_key, created: changes === 1 };
  }

  /** Every record, in the order of their making. @throws as {@link findOwner} */
  list(): ApiKeyRecord[] {
    const rows = this.#database.statement(
      `SELECT id, user_id, role, created_at, iif(length(api_key) >= ${SHORTEST_SHOWN}, substr(api_key, -4), '') AS ending
       FROM api_keys ORDER BY id`,
    );
    return rows.all() as unknown as ApiKeyRecord[];
  }

  /**
   * Makes a record with a new key of 32 random characters; a user may have several.
   *
   * @param now Unix seconds
   * @returns once it is on disk
   * @throws as {@link findOwner}, and when the record could not be written
   */
  create({ user_id, role }: ApiKeyOwner, now: number): { id: number; apiKey: string } {
    const apiKey = newKey();
    let id = 0;
    this.#write(() => {
      const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, ?)';
      id = Number(this.#database.statement(insert).run(apiKey, user_id, role, now).lastInsertRowid);
    });
    return { id, apiKey };
  }

  /**
   * Deletes the record of that id.
   *
   * @returns whose it was, and how many others that user still has, once it is on disk; undefined where there was none
   * @throws as {@link create}
   */
  revoke(id: number): (ApiKeyOwner & { others: number }) | undefined {
    let revoked: (ApiKeyOwner & { others: number }) | undefined;
    this.#write(() => {
      const owner = this.#database.statement('DELETE FROM api_keys WHERE id = ? RETURNING user_id, role').get(id);
      if (owner === undefined) return;
      const { user_id, role } = owner as unknown as ApiKeyOwner;
      const count = this.#database.statement('SELECT count(*) AS others FROM api_keys WHERE user_id = ?');
      revoked = { user_id, role, ...(count.get(user_id) as { others: number }) };
    });
    return revoked;
  }

  /** For good: a key that was handed out is known after a loss of power, one that was revoked does not come back. */
  #write(work: () => void): void {
    this.#database.transaction(true, work);
    this.#snapshot = undefined;
  }

  #owners(): Map<string, ApiKeyOwner> {
    const statement = this.#database.statement('PRAGMA data_version');
    // Before the rows: what is written in between is found out the next time.
    const { data_version: version } = statement.get() as { data_version: number };
    if (this.#snapshot?.statement !== statement || this.#snapshot.version !== version) {
      this.#snapshot = undefined;
      const rows = this.#database.statement('SELECT api_key, user_id, role FROM api_keys').all();
      const owners = new Map<string, ApiKeyOwner>();
      for (const { api_key, user_id, role } of rows as unknown as (ApiKeyOwner & { api_key: string })[]) {
        owners.set(this.#digest(api_key), { user_id, role });
      }
      this.#snapshot = { statement, version, owners };
    }
    return this.#snapshot.owners;
  }

  #digest(apiKey: string): string {
    return hash('sha256', this.#secret + apiKey, 'base64');
  }
}

/** Of a key that is shorter, four characters are too many to show. */
export const SHORTEST_SHOWN = 16;

/** 32 random characters. */
export function newKey(): string {
  return randomBytes(16).toString('hex');
}

import { hash, randomBytes } from 'node:crypto';
import type { StatementSync } from 'node:sqlite';
import type { Database } from './database.ts';

export interface ApiKeyOwner {
  user_id: string;
  role: string;
}

/** A stored API key, without the key itself. */
export interface ApiKeyRecord extends ApiKeyOwner {
  id: number;
  /** Last four characters of the key. Empty for keys shorter than {@link SHORTEST_SHOWN}. */
  ending: string;
  /** Creation time in Unix seconds. */
  created_at: number;
}

/** Copy of table `api_keys` in memory. Valid while `statement` and `version` are unchanged. */
interface Snapshot {
  /** Prepared statement `PRAGMA data_version`. Another object means a new connection, possibly to another file. */
  statement: StatementSync;
  /** Result of `PRAGMA data_version`, which changes when another connection commits. */
  version: number;
  /** Owners of API keys, by the digest of the key. */
  owners: Map<string, ApiKeyOwner>;
}

/**
 * The stored API keys: table `api_keys` of the specification. Methods throw the errors of {@link Database.statement} and of SQLite.
 *
 * Keys are looked up in memory, by a digest that includes a random secret of this process. The lookup time depends only on
 * that digest, so it reveals nothing about the keys. Comparing the keys themselves, as an index does, would allow a timing
 * attack. The table is read again after every change of the file.
 */
export class ApiKeys {
  readonly #database: Database;
  readonly #secret = randomBytes(32).toString('hex');
  #snapshot: Snapshot | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Returns the owner of `apiKey`, or undefined for an unknown key. */
  findOwner(apiKey: string): ApiKeyOwner | undefined {
    return this.#owners().get(this.#digest(apiKey));
  }

  /** Creates a key for user `demo` if it has none, at `now` (Unix seconds). @returns its oldest key, and whether it is new */
  ensureDemoUser(now: number): { apiKey: string; created: boolean } {
    const insert = this.#database.statement(
      `INSERT INTO api_keys (api_key, user_id, role, created_at)
       SELECT ?, 'demo', 'user', ? WHERE NOT EXISTS (SELECT 1 FROM api_keys WHERE user_id = 'demo')`,
    );
    const { changes } = insert.run(newKey(), now);
    // Reset, because a connection's own writes do not change its `data_version`.
    this.#snapshot = undefined;
    const oldest = this.#database.statement("SELECT api_key FROM api_keys WHERE user_id = 'demo' ORDER BY id LIMIT 1");
    return { apiKey: (oldest.get() as { api_key: string }).api_key, created: changes === 1 };
  }

  /** Returns the records of all API keys, oldest first. */
  list(): ApiKeyRecord[] {
    const rows = this.#database.statement(
      `SELECT id, user_id, role, created_at, iif(length(api_key) >= ${SHORTEST_SHOWN}, substr(api_key, -4), '') AS ending
       FROM api_keys ORDER BY id`,
    );
    return rows.all() as unknown as ApiKeyRecord[];
  }

  /** Creates an API key for a user, who may have several, and syncs it to disk. @param now creation time in Unix seconds */
  create({ user_id, role }: ApiKeyOwner, now: number): { id: number; apiKey: string } {
    const apiKey = newKey();
    const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, ?)';
    const { lastInsertRowid } = this.#write(() => this.#database.statement(insert).run(apiKey, user_id, role, now));
    return { id: Number(lastInsertRowid), apiKey };
  }

  /** Deletes an API key, on disk as well. @returns the owner and the number of the owner's other keys; undefined if unknown */
  revoke(id: number): (ApiKeyOwner & { others: number }) | undefined {
    return this.#write(() => {
      const remove = this.#database.statement('DELETE FROM api_keys WHERE id = ? RETURNING user_id, role');
      const owner = remove.get(id) as ApiKeyOwner | undefined;
      if (owner === undefined) return undefined;
      const count = this.#database.statement('SELECT count(*) AS others FROM api_keys WHERE user_id = ?');
      return { ...owner, ...(count.get(owner.user_id) as { others: number }) };
    });
  }

  /** Runs a durable transaction, so that a loss of power neither loses a new key nor restores a revoked key. */
  #write<T>(work: () => T): T {
    const result = this.#database.transaction(true, work);
    this.#snapshot = undefined;
    return result;
  }

  #owners(): Map<string, ApiKeyOwner> {
    const statement = this.#database.statement('PRAGMA data_version');
    // The version is read before the rows, so that after a write in between, the next call reads the rows again.
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

/** Minimum length of an API key whose last four characters are shown. Of a shorter key, they would reveal too much. */
export const SHORTEST_SHOWN = 16;

/** Returns a new API key of 32 random hexadecimal digits. */
export function newKey(): string {
  return randomBytes(16).toString('hex');
}

import { hash, randomBytes } from 'node:crypto';
import type { StatementSync } from 'node:sqlite';
import type { Database } from './database.ts';

export interface ApiKeyOwner {
  user_id: string;
  role: string;
}

/** Record of an API key. Does not contain the key itself. */
export interface ApiKeyRecord extends ApiKeyOwner {
  id: number;
  /** Last four characters of the key. Empty if the key is shorter than {@link SHORTEST_SHOWN}. */
  ending: string;
  /** Creation time in Unix seconds. */
  created_at: number;
}

/** In-memory copy of table `api_keys`. Valid while `statement` and `version` are unchanged. */
interface Snapshot {
  /** Prepared statement for {@link VERSION}. A different statement means that the database was reopened. */
  statement: StatementSync;
  version: string;
  /** Owners of API keys, by key digest. */
  owners: Map<string, ApiKeyOwner>;
}

/** Query whose result changes when another connection commits (`data_version`) or this connection writes (`total_changes()`). */
const VERSION = "SELECT data_version || ' ' || total_changes() AS version FROM pragma_data_version";

/**
 * API keys in the SQLite table `api_keys`. Methods throw SQLite's errors and the errors of {@link Database.statement}.
 *
 * Keys are looked up in memory by a keyed hash, which prevents timing attacks. The table is read again after every
 * change. `create` and `revoke` sync their changes to disk, so that a power loss cannot undo them.
 */
export class ApiKeys {
  readonly #database: Database;
  readonly #secret = randomBytes(32).toString('hex');
  #snapshot: Snapshot | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Returns the owner of `apiKey`, or undefined if the key is unknown. */
  findOwner(apiKey: string): ApiKeyOwner | undefined {
    return this.#owners().get(this.#digest(apiKey));
  }

  /**
   * Creates an API key for user `demo` if the user has none.
   *
   * @param now Unix seconds
   * @returns the user's oldest key, and whether the key was created
   */
  ensureDemoUser(now: number): { apiKey: string; created: boolean } {
    const insert = this.#database.statement(
      `INSERT INTO api_keys (api_key, user_id, role, created_at)
       SELECT ?, 'demo', 'user', ? WHERE NOT EXISTS (SELECT 1 FROM api_keys WHERE user_id = 'demo')`,
    );
    const { changes } = insert.run(newKey(), now);
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

  /** Creates an API key and syncs it to disk. A user may have several keys. @param now creation time in Unix seconds */
  create({ user_id, role }: ApiKeyOwner, now: number): { id: number; apiKey: string } {
    const apiKey = newKey();
    const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, ?)';
    const { lastInsertRowid } = this.#database.transaction(true, () =>
      this.#database.statement(insert).run(apiKey, user_id, role, now),
    );
    return { id: Number(lastInsertRowid), apiKey };
  }

  /**
   * Deletes an API key and syncs the deletion to disk. Returns the key's owner and the number of the owner's other keys
   * (`others`), or undefined if the id is unknown.
   */
  revoke(id: number): (ApiKeyOwner & { others: number }) | undefined {
    return this.#database.transaction(true, () => {
      const remove = this.#database.statement('DELETE FROM api_keys WHERE id = ? RETURNING user_id, role');
      const owner = remove.get(id) as ApiKeyOwner | undefined;
      if (owner === undefined) return undefined;
      const count = this.#database.statement('SELECT count(*) AS others FROM api_keys WHERE user_id = ?');
      return { ...owner, ...(count.get(owner.user_id) as { others: number }) };
    });
  }

  #owners(): Map<string, ApiKeyOwner> {
    const statement = this.#database.statement(VERSION);
    // The version is read before the rows. If the table changes in between, the next call reads the rows again.
    const { version } = statement.get() as { version: string };
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

/** Minimum length of an API key whose last four characters are shown. They would reveal too much of a shorter key. */
export const SHORTEST_SHOWN = 16;

/** Returns a new API key of 32 random hexadecimal digits. */
export function newKey(): string {
  return randomBytes(16).toString('hex');
}

import { hash, randomBytes } from 'node:crypto';
import type { StatementSync } from 'node:sqlite';
import { Database } from './database.ts';

export interface ApiKeyOwner {
  user_id: string;
  role: string;
}

/** Record of an API key, without the key itself. */
export interface ApiKeyRecord extends ApiKeyOwner {
  id: number;
  /** Last four characters of the key. Empty if the key is shorter than {@link SHORTEST_SHOWN}. */
  ending: string;
  /** Creation time in Unix seconds. */
  created_at: number;
}

/** In-memory copy of table `api_keys`, used until `version` changes or the database is reopened. */
interface Snapshot {
  /** Statement for {@link VERSION}. Reopening the database prepares a new one, so the snapshot becomes invalid. */
  statement: StatementSync;
  version: unknown;
  owners: Map<string, ApiKeyOwner>;
}

/** Query whose result changes when another connection commits (`data_version`) or this connection writes (`total_changes()`). */
const VERSION = "SELECT data_version || ' ' || total_changes() AS version FROM pragma_data_version";

/** Opens the file of the API keys. Each change is synced, so that no power loss undoes it. */
export function openAuthDatabase(path: string, busyTimeoutMs: number): Database {
  return new Database(path, { busyTimeoutMs, isSynced: true });
}

/** API keys, found in memory by a keyed hash, which prevents timing attacks. */
export class ApiKeys {
  readonly #database: Database;
  readonly #secret = randomBytes(32).toString('hex');
  #snapshot: Snapshot | undefined;

  constructor(database: Database) {
    this.#database = database;
  }

  findOwner(apiKey: string): ApiKeyOwner | undefined {
    return this.#owners().get(this.#digest(apiKey));
  }

  /** Returns the oldest API key of user `demo`, or creates a key. `now` is in Unix seconds. */
  ensureDemoUser(now: number): { apiKey: string; created: boolean } {
    const insert = `INSERT INTO api_keys (api_key, user_id, role, created_at)
      SELECT ?, 'demo', 'user', ? WHERE NOT EXISTS (SELECT 1 FROM api_keys WHERE user_id = 'demo')`;
    const created = this.#database.run(insert, newKey(), now) === 1;
    const oldest = "SELECT api_key AS apiKey FROM api_keys WHERE user_id = 'demo' ORDER BY id LIMIT 1";
    return { ...(this.#database.get(oldest) as { apiKey: string }), created };
  }

  /** Returns the records of all API keys, oldest first. */
  list(): ApiKeyRecord[] {
    return this.#database.all(
      `SELECT id, user_id, role, created_at, iif(length(api_key) >= ${SHORTEST_SHOWN}, substr(api_key, -4), '') AS ending
       FROM api_keys ORDER BY id`,
    );
  }

  /** Returns all API keys. */
  keys(): string[] {
    return this.#database.all<{ api_key: string }>('SELECT api_key FROM api_keys').map(({ api_key }) => api_key);
  }

  /** Creates an API key. A user may have several keys. `now` is in Unix seconds. */
  create({ user_id, role }: ApiKeyOwner, now: number): { id: number; apiKey: string } {
    const apiKey = newKey();
    const insert = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES (?, ?, ?, ?)';
    const { lastInsertRowid } = this.#database.statement(insert).run(apiKey, user_id, role, now);
    return { id: Number(lastInsertRowid), apiKey };
  }

  /** Returns the owner of the deleted key and the number of the owner's other keys, or undefined if `id` is unknown. */
  revoke(id: number): (ApiKeyOwner & { others: number }) | undefined {
    return this.#database.transaction(() => {
      const remove = 'DELETE FROM api_keys WHERE id = ? RETURNING user_id, role';
      const owner = this.#database.get<ApiKeyOwner>(remove, id);
      if (owner === undefined) return undefined;
      const count = 'SELECT count(*) AS others FROM api_keys WHERE user_id = ?';
      return { ...owner, ...(this.#database.get(count, owner.user_id) as { others: number }) };
    });
  }

  #owners(): Map<string, ApiKeyOwner> {
    const statement = this.#database.statement(VERSION);
    // Reads the version before the rows, so that a change in between makes the next call read the rows again.
    const version = statement.get()?.version;
    if (this.#snapshot?.statement !== statement || this.#snapshot.version !== version) {
      this.#snapshot = undefined;
      const rows = this.#database.all<ApiKeyOwner & { api_key: string }>('SELECT api_key, user_id, role FROM api_keys');
      const owners = rows.map(({ api_key, user_id, role }) => [this.#digest(api_key), { user_id, role }] as const);
      this.#snapshot = { statement, version, owners: new Map(owners) };
    }
    return this.#snapshot.owners;
  }

  #digest(apiKey: string): string {
    return hash('sha256', this.#secret + apiKey, 'base64');
  }
}

/** Minimum length of an API key whose last four characters are shown. A shorter key would reveal too much. */
export const SHORTEST_SHOWN = 16;

/** Returns a random API key of 32 hexadecimal digits. */
export function newKey(): string {
  return randomBytes(16).toString('hex');
}

import { hash, randomBytes } from 'node:crypto';
import type { StatementSync } from 'node:sqlite';
import { type ApiKeyOwner, ApiKeyTable } from '../api-keys.ts';
import { Database } from './database.ts';

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
export class ApiKeys extends ApiKeyTable {
  readonly #database: Database;
  readonly #secret = randomBytes(32).toString('hex');
  #snapshot: Snapshot | undefined;

  constructor(database: Database) {
    super(database.read);
    this.#database = database;
  }

  findOwner(apiKey: string): ApiKeyOwner | undefined {
    return this.#owners().get(this.#digest(apiKey));
  }

  keys(): string[] {
    return this.#database.all<{ api_key: string }>('SELECT api_key FROM api_keys').map(({ api_key }) => api_key);
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

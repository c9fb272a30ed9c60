import { hash } from 'node:crypto';
import { type ApiKeyOwner, ApiKeyTable } from '../api-keys.ts';
import { acquireLock, type PostgresDatabase } from './database.ts';

const DIGEST = String.raw`sha256(replace(api_key, '\', '\\')::bytea)`;
const FIND = `SELECT user_id, role FROM api_keys WHERE ${DIGEST} = $1`;

/**
 * API keys, found by their SHA-256 digest, so that the lookup time reveals nothing about a key. Methods throw
 * `DatabaseUnavailable` or `DatabaseError`.
 */
export class PostgresApiKeys extends ApiKeyTable {
  readonly #database: PostgresDatabase;

  constructor(database: PostgresDatabase) {
    super(database.query);
    this.#database = database;
  }

  async findOwner(apiKey: string): Promise<ApiKeyOwner | undefined> {
    const [owner] = await this.#database.query<ApiKeyOwner>(FIND, [hash('sha256', apiKey, 'buffer')]);
    return owner;
  }

  override ensureDemoUser(now: number) {
    return this.#database.transaction(async (query) => {
      // Without the lock, several nodes that start at once would each create a key.
      await acquireLock(query, 'demo user');
      return new ApiKeyTable(query).ensureDemoUser(now);
    });
  }
}

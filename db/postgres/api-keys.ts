import { hash } from 'node:crypto';
import { type ApiKeyOwner, type ApiKeyRecord, newKey, SHORTEST_SHOWN } from '../sqlite/api-keys.ts';
import { acquireLock, type PostgresDatabase } from './database.ts';

const DIGEST = String.raw`sha256(replace(api_key, '\', '\\')::bytea)`;
const FIND = `SELECT user_id, role FROM api_keys WHERE ${DIGEST} = $1`;

/**
 * API keys, found by their SHA-256 digest, so that the lookup time reveals nothing about a key. Methods throw
 * `DatabaseUnavailable` or `DatabaseError`.
 */
export class PostgresApiKeys {
  readonly #database: PostgresDatabase;

  constructor(database: PostgresDatabase) {
    this.#database = database;
  }

  async findOwner(apiKey: string): Promise<ApiKeyOwner | undefined> {
    const [owner] = await this.#database.query<ApiKeyOwner>(FIND, [hash('sha256', apiKey, 'buffer')]);
    return owner;
  }

  /** Returns the oldest API key of user `demo`, or creates a key. `now` is in Unix seconds. */
  ensureDemoUser(now: number): Promise<{ apiKey: string; created: boolean }> {
    return this.#database.transaction(async (query) => {
      // Without the lock, several nodes that start at once would each create a key.
      await acquireLock(query, 'demo user');
      const oldest = "SELECT api_key FROM api_keys WHERE user_id = 'demo' ORDER BY id LIMIT 1";
      const [present] = await query<{ api_key: string }>(oldest);
      if (present !== undefined) return { apiKey: present.api_key, created: false };
      const apiKey = newKey();
      const insert = "INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES ($1, 'demo', 'user', $2)";
      await query(insert, [apiKey, now]);
      return { apiKey, created: true };
    });
  }

  /** Returns the records of all API keys, oldest first. */
  list(): Promise<ApiKeyRecord[]> {
    return this.#database.query<ApiKeyRecord>(`SELECT id, user_id, role, created_at,
      CASE WHEN length(api_key) >= ${SHORTEST_SHOWN} THEN right(api_key, 4) ELSE '' END AS ending
      FROM api_keys ORDER BY id`);
  }

  /** Creates an API key. A user may have several keys. `now` is in Unix seconds. */
  async create({ user_id, role }: ApiKeyOwner, now: number): Promise<{ id: number; apiKey: string }> {
    const apiKey = newKey();
    const text = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES ($1, $2, $3, $4) RETURNING id';
    const [made] = await this.#database.query<{ id: number }>(text, [apiKey, user_id, role, now]);
    return { id: made?.id as number, apiKey };
  }

  /** Returns the owner of the deleted key and the number of the owner's other keys, or undefined if `id` is unknown. */
  async revoke(id: number): Promise<(ApiKeyOwner & { others: number }) | undefined> {
    const text = `WITH revoked AS (DELETE FROM api_keys WHERE id = $1 RETURNING user_id, role)
      SELECT user_id, role, (SELECT count(*) FROM api_keys o WHERE o.user_id = revoked.user_id AND o.id <> $1) AS others
      FROM revoked`;
    const [revoked] = await this.#database.query<ApiKeyOwner & { others: number }>(text, [id]);
    return revoked;
  }
}

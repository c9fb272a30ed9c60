import { hash } from 'node:crypto';
import { type ApiKeyOwner, type ApiKeyRecord, newKey, SHORTEST_SHOWN } from '../sqlite/api-keys.ts';
import { acquireLock } from './advisory-locks.ts';
import type { PostgresDatabase } from './database.ts';

const DIGEST = String.raw`sha256(replace(api_key, '\', '\\')::bytea)`;
const FIND = { name: 'find-owner', text: `SELECT user_id, role FROM api_keys WHERE ${DIGEST} = $1` };

/**
 * API keys in the PostgreSQL table `api_keys`. Looks up keys by their SHA-256 digest, so that the lookup time reveals
 * nothing about the keys. Methods throw `DatabaseUnavailable` or `DatabaseError`.
 */
export class PostgresApiKeys {
  readonly #database: PostgresDatabase;

  constructor(database: PostgresDatabase) {
    this.#database = database;
  }

  /** Returns the owner of `apiKey`, or undefined if the key is unknown. */
  async findOwner(apiKey: string): Promise<ApiKeyOwner | undefined> {
    const [owner] = await this.#database.query<ApiKeyOwner>(FIND, [hash('sha256', apiKey, 'buffer')]);
    return owner;
  }

  /**
   * Creates an API key for user `demo` if the user has none.
   *
   * @param now Unix seconds
   * @returns the user's oldest key, and whether the key was created
   */
  ensureDemoUser(now: number): Promise<{ apiKey: string; created: boolean }> {
    return this.#database.transaction(async (query) => {
      // The lock lets only one node create the key if several nodes start at once.
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

  /** Creates an API key for a user. A user may have several keys. @param now creation time in Unix seconds */
  async create({ user_id, role }: ApiKeyOwner, now: number): Promise<{ id: number; apiKey: string }> {
    const apiKey = newKey();
    const text = 'INSERT INTO api_keys (api_key, user_id, role, created_at) VALUES ($1, $2, $3, $4) RETURNING id';
    const [made] = await this.#database.query<{ id: number }>(text, [apiKey, user_id, role, now]);
    return { id: made?.id as number, apiKey };
  }

  /**
   * Deletes an API key. Returns the key's owner and the number of the owner's other keys, or undefined if `id` is
   * unknown.
   */
  async revoke(id: number): Promise<(ApiKeyOwner & { others: number }) | undefined> {
    const text = `WITH revoked AS (DELETE FROM api_keys WHERE id = $1 RETURNING user_id, role)
      SELECT user_id, role, (SELECT count(*) FROM api_keys o WHERE o.user_id = revoked.user_id AND o.id <> $1) AS others
      FROM revoked`;
    const [revoked] = await this.#database.query<ApiKeyOwner & { others: number }>(text, [id]);
    return revoked;
  }
}

import { randomBytes } from 'node:crypto';
import type { Database } from './database.ts';

/** Whom an API key belongs to. */
export interface ApiKeyOwner {
  user_id: string;
  role: string;
}

/** The stored API keys: table `api_keys` of the specification. */
export class ApiKeys {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * The owner of `apiKey`, or undefined where no record has that key.
   *
   * @throws {DatabaseUnavailable} when the database cannot be obtained, any other error when the query fails
   */
  findOwner(apiKey: string): ApiKeyOwner | undefined {
    const row = this.#database.statement('SELECT user_id, role FROM api_keys WHERE api_key = ?').get(apiKey);
    return row as ApiKeyOwner | undefined;
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
    const { changes } = insert.run(randomBytes(16).toString('hex'), now);
    const oldest = this.#database.statement("SELECT api_key FROM api_keys WHERE user_id = 'demo' ORDER BY id LIMIT 1");
    return { apiKey: (oldest.get() as { api_key: string }).api_key, created: changes === 1 };
  }
}

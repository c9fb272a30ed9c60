import { randomBytes } from 'node:crypto';
import type { Read } from './task-rows.ts';

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

/** Minimum length of an API key whose last four characters are shown. A shorter key would reveal too much. */
const SHORTEST_SHOWN = 16;

const LIST = `SELECT id, user_id, role, created_at,
  CASE WHEN length(api_key) >= ${SHORTEST_SHOWN} THEN substr(api_key, length(api_key) - 3) ELSE '' END AS ending
  FROM api_keys ORDER BY id`;
const INSERT = 'INSERT INTO api_keys (api_key, user_id, role, created_at)';
const INSERT_DEMO = `${INSERT} SELECT CAST($1 AS text), 'demo', 'user', CAST($2 AS bigint)
  WHERE NOT EXISTS (SELECT 1 FROM api_keys WHERE user_id = 'demo') RETURNING id`;
const OLDEST_DEMO = `SELECT api_key AS "apiKey" FROM api_keys WHERE user_id = 'demo' ORDER BY id LIMIT 1`;
// A single statement, because a failed count after the deletion would report a failure although the key is gone.
const REVOKE = `DELETE FROM api_keys WHERE id = $1 RETURNING user_id, role,
  (SELECT count(*) FROM api_keys AS other WHERE other.user_id = api_keys.user_id AND other.id <> $1) AS others`;

/** Table `api_keys`, by statements that both databases share. Times are in Unix seconds. */
export class ApiKeyTable {
  readonly #read: Read;

  constructor(read: Read) {
    this.#read = read;
  }

  /** Returns the oldest API key of user `demo`, or creates a key. */
  async ensureDemoUser(now: number): Promise<{ apiKey: string; created: boolean }> {
    const created = (await this.#read(INSERT_DEMO, [newKey(), now])).length > 0;
    const [oldest] = await this.#read<{ apiKey: string }>(OLDEST_DEMO);
    return { apiKey: oldest?.apiKey as string, created };
  }

  /** Returns the records of all API keys, oldest first. */
  async list(): Promise<readonly ApiKeyRecord[]> {
    return this.#read(LIST);
  }

  /** Creates an API key. A user may have several keys. */
  async create({ user_id, role }: ApiKeyOwner, now: number): Promise<{ id: number; apiKey: string }> {
    const apiKey = newKey();
    const insert = `${INSERT} VALUES ($1, $2, $3, $4) RETURNING id`;
    const [made] = await this.#read<{ id: number }>(insert, [apiKey, user_id, role, now]);
    return { id: made?.id as number, apiKey };
  }

  /** Returns the owner of the deleted key and the number of the owner's other keys, or undefined if `id` is unknown. */
  async revoke(id: number): Promise<(ApiKeyOwner & { others: number }) | undefined> {
    const [revoked] = await this.#read<ApiKeyOwner & { others: number }>(REVOKE, [id]);
    return revoked;
  }
}

function newKey(): string {
  return randomBytes(16).toString('hex');
}

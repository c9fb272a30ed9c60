import type { ApiKeyOwner } from '../../db/sqlite/api-keys.ts';
import type { Awaitable } from '../awaitable.ts';

/** Store of API keys. Methods throw like those of `ApiKeys` in `db`. */
export interface ApiKeyStore {
  findOwner(apiKey: string): Awaitable<ApiKeyOwner | undefined>;
  ensureDemoUser(now: number): Awaitable<{ apiKey: string; created: boolean }>;
}

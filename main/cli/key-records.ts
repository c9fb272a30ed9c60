import { existsSync } from 'node:fs';
import { join } from 'node:path';
import type { PostgresApiKeys } from '../../db/postgres/api-keys.ts';
import { ApiKeys } from '../../db/sqlite/api-keys.ts';
import { Database, DatabaseUnavailable } from '../../db/sqlite/database.ts';
import type { Awaitable } from '../awaitable.ts';
import { databaseUrl, dataFolder } from './command.ts';

type KeyRecords = Pick<ApiKeys | PostgresApiKeys, 'list' | 'create' | 'revoke' | 'ensureDemoUser'>;

/** Lock timeout of the SQLite file, much longer than any write by the services. */
const BUSY_TIMEOUT_MS = 2000;
const SQLITE_BUSY = 5;
const STATEMENT_TIMEOUT_MS = 5000;
const UNDEFINED_TABLE = '42P01';

/** Opens the API key database for `work`. @throws {Error} with a one-line message that says what to fix */
export function withKeys<T>(work: (keys: KeyRecords) => Awaitable<T>): Promise<T> {
  const url = databaseUrl();
  return url === undefined ? withKeysOfFile(join(dataFolder(), 'auth.db'), work) : withKeysOfServer(url, work);
}

async function withKeysOfFile<T>(path: string, work: (keys: KeyRecords) => Awaitable<T>): Promise<T> {
  if (!existsSync(path)) {
    throw new Error(`${path} does not exist: run "npm start" or "npm run migrate", or set DATA_DIR to its folder`);
  }
  const database = new Database(path, { busyTimeoutMs: BUSY_TIMEOUT_MS });
  try {
    return await work(new ApiKeys(database));
  } catch (error) {
    const { errcode, message } = ((error as Error).cause ?? error) as { errcode?: number; message: string };
    const locked = ((errcode ?? 0) & 0xff) === SQLITE_BUSY;
    const reason = locked ? 'another program has locked it: try again when that program has ended' : message;
    throw new Error(`${path}: ${reason}`, { cause: error });
  } finally {
    database.close();
  }
}

async function withKeysOfServer<T>(url: string, work: (keys: KeyRecords) => Awaitable<T>): Promise<T> {
  // Imported lazily, because a command that uses SQLite files does not need the PostgreSQL client.
  const [{ PostgresDatabase, reasonOf }, { PostgresApiKeys }] = await Promise.all([
    import('../../db/postgres/database.ts'),
    import('../../db/postgres/api-keys.ts'),
  ]);
  const database = new PostgresDatabase(url, { connections: 1, timeLimitMs: STATEMENT_TIMEOUT_MS });
  try {
    return await work(new PostgresApiKeys(database));
  } catch (error) {
    if (error instanceof DatabaseUnavailable) throw error;
    const missing = (error as { code?: string }).code === UNDEFINED_TABLE;
    const reason = missing ? 'table api_keys does not exist: run "npm run migrate"' : reasonOf(error);
    throw new Error(`PostgreSQL at ${database.address}: ${reason}`, { cause: error });
  } finally {
    await database.close();
  }
}

import { migrationSteps } from '../migration-steps.ts';
import { DatabaseUnavailable } from '../task-store.ts';
import { acquireLock, PostgresDatabase, type Query, reasonOf } from './database.ts';

const folder = new URL('../migrations/postgres/', import.meta.url);

/** Timeout of any statement other than a migration step, and of any wait for a table lock. */
const TIME_LIMIT_MS = 50_000;

/**
 * Migrates the tables in the current schema. If several nodes migrate at once, all but one wait without limit.
 *
 * @returns the database's address, without the user name and password
 * @throws {Error} with a one-line message
 */
export async function migratePostgres(url: string, timeLimitMs = TIME_LIMIT_MS): Promise<string> {
  const database = new PostgresDatabase(url, { connections: 1, timeLimitMs });
  try {
    await database.transaction(migrateSchema);
    return database.address;
  } catch (error) {
    if (error instanceof DatabaseUnavailable) throw error;
    throw new Error(`cannot migrate PostgreSQL at ${database.address}: ${reasonOf(error)}`, { cause: error });
  } finally {
    await database.close();
  }
}

async function migrateSchema(query: Query): Promise<void> {
  const [{ encoding } = { encoding: '' }] = await query<{ encoding: string }>(
    "SELECT current_setting('server_encoding') AS encoding",
  );
  if (encoding !== 'UTF8') throw new Error(`its encoding is ${encoding}: create the database with ENCODING 'UTF8'`);
  await query('SET LOCAL statement_timeout = 0');
  await query('SET LOCAL lock_timeout = 0');
  await acquireLock(query, 'migration');
  await query('SET LOCAL lock_timeout TO DEFAULT');
  await query('CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)');
  const [{ version } = { version: 0 }] = await query<{ version: number }>(
    'SELECT max(version) AS version FROM schema_version HAVING max(version) IS NOT NULL',
  );
  const tables = await query<{ name: string }>(
    'SELECT tablename AS name FROM pg_tables WHERE schemaname = current_schema()',
  );
  const names = tables.map(({ name }) => name);
  const { steps, newest } = migrationSteps(folder, version, names);
  for (const sql of steps) await query(sql, [], Infinity);
  if (version === newest) return;
  await query('DELETE FROM schema_version');
  await query('INSERT INTO schema_version VALUES ($1)', [newest]);
}

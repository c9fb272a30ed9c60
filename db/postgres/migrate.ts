import { migrationSteps } from '../migration-steps.ts';
import { DatabaseUnavailable } from '../sqlite/database.ts';
import { acquireLock } from './advisory-locks.ts';
import { PostgresDatabase, type Query, reasonOf } from './database.ts';

const folder = new URL('../migrations/postgres/', import.meta.url);
const TABLES = ['api_keys', 'tasks'];

/** Statement timeout. Long, because a migration can rewrite many rows or wait for another node's migration. */
const TIME_LIMIT_MS = 50_000;

/**
 * Migrates the tables in the current schema to the newest version and keeps their rows. Several nodes can call this
 * function at the same time.
 *
 * @returns the database's address, without the user name and password
 * @throws {Error} with a one-line message if the server cannot be reached, the tables are newer than this program, or a
 *   migration fails
 */
export async function migratePostgres(url: string): Promise<string> {
  const database = new PostgresDatabase(url, { connections: 1, timeLimitMs: TIME_LIMIT_MS });
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
  await acquireLock(query, 'migration');
  await query('CREATE TABLE IF NOT EXISTS schema_version (version integer NOT NULL)');
  const [{ version } = { version: 0 }] = await query<{ version: number }>(
    'SELECT max(version) AS version FROM schema_version HAVING max(version) IS NOT NULL',
  );
  const find = 'SELECT 1 FROM pg_tables WHERE schemaname = current_schema() AND tablename = ANY($1)';
  const present = await query(find, [TABLES]);
  const { steps, newest } = migrationSteps(folder, { version, isComplete: present.length === TABLES.length });
  for (const sql of steps) await query(sql);
  if (version === newest) return;
  await query('DELETE FROM schema_version');
  await query('INSERT INTO schema_version VALUES ($1)', [newest]);
}

import { PostgresApiKeys } from '../../db/postgres/api-keys.ts';
import { PostgresDatabase } from '../../db/postgres/database.ts';
import { PostgresTasks } from '../../db/postgres/tasks.ts';
import type { Backend } from '../backends/backend.ts';
import { runMigration } from '../backends/migration.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import { startRetentionRounds } from './retention-rounds.ts';

const CONNECTIONS = 10;
const TIME_LIMIT_MS = 2000;

/** @throws {Error} if the database cannot be migrated */
export async function openPostgres(
  databaseUrl: string,
  { rows, days }: Config['retention'],
  log: Log,
): Promise<Pick<Backend, 'apiKeys' | 'tasks' | 'taskStoreLocation' | 'startRetention' | 'checks' | 'close'>> {
  await runMigration({ databaseUrl });
  const database = new PostgresDatabase(databaseUrl, {
    connections: CONNECTIONS,
    timeLimitMs: TIME_LIMIT_MS,
    onLost: (reason) => log.warn({ reason }, 'a connection to PostgreSQL was lost'),
  });
  const probe = () => database.probe();
  return {
    apiKeys: new PostgresApiKeys(database),
    tasks: new PostgresTasks(database),
    taskStoreLocation: { databaseUrl },
    startRetention: () => (rows > 0 || days > 0 ? startRetentionRounds(databaseUrl, { rows, days }, log) : undefined),
    checks: { auth_database: probe, tasks_database: probe },
    close: () => database.close(),
  };
}

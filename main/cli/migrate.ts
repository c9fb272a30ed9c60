/** `npm run migrate`: creates or updates the databases without starting the services. */
import { parseArgs } from 'node:util';
import { lockDataFolder } from '../../db/sqlite/data-folder.ts';
import { migrate } from '../../db/sqlite/migrate.ts';
import { databaseUrl, dataFolder, runCommand } from './command.ts';

const USAGE = `npm run migrate

Creates or updates the databases in DATA_DIR (default: data), or in PostgreSQL if DATABASE_URL is set.
The services that use DATA_DIR must be stopped. They also do this at each start.
`;

await runCommand(USAGE, async (args) => {
  parseArgs({ args, options: {} });
  const url = databaseUrl();
  console.log(url === undefined ? migrateFolder(dataFolder()) : await migrateServer(url));
});

function migrateFolder(dataDir: string): string {
  const unlock = lockDataFolder(dataDir);
  try {
    for (const { file, wasEmpty } of migrate(dataDir))
      console.log(`created ${file}${wasEmpty ? ' in an empty file' : ''}`);
    return `the databases in ${dataDir} are up to date`;
  } finally {
    unlock();
  }
}

async function migrateServer(url: string): Promise<string> {
  // Imported lazily, because SQLite files do not need the PostgreSQL client.
  const { migratePostgres } = await import('../../db/postgres/migrate.ts');
  return `PostgreSQL at ${await migratePostgres(url)} is up to date`;
}

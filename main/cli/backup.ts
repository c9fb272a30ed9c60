/** `npm run backup`: copies the databases, even while the services are running. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { backUpDatabases } from '../../db/sqlite/backup.ts';
import { databaseUrl, dataFolder, runCommand, UsageError } from './command.ts';

const USAGE = `npm run backup -- <folder>

Copies the databases in DATA_DIR (default: data) into the folder, which must be new or empty. The services may be running.
To restore a backup, start the services with DATA_DIR set to a copy of that folder.
If DATABASE_URL is set, there is nothing to copy: back up PostgreSQL with pg_dump.
`;

await runCommand(USAGE, async (args) => {
  const [folder, ...others] = parseArgs({ args, allowPositionals: true }).positionals;
  if (folder === undefined || folder === '') throw new UsageError('name a folder for the backup');
  if (others.length > 0) throw new UsageError('too many arguments: name one folder');
  if (databaseUrl() !== undefined) {
    throw new Error('DATABASE_URL is set, so rows and keys are in PostgreSQL: back them up with pg_dump');
  }
  const path = resolve(folder);
  const files = await backUpDatabases(dataFolder(), path, abortedBySignal());
  console.log(`copied ${files.map(({ file, bytes }) => `${file} (${size(bytes)})`).join(', ')} to ${path}`);
});

function abortedBySignal(): AbortSignal {
  const controller = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    // A second signal without a listener would end the process before the partial files are deleted.
    process.on(name, () => controller.abort(new Error(`ended by ${name}`)));
  }
  return controller.signal;
}

function size(bytes: number): string {
  const KIB = 1024;
  return bytes < KIB * KIB ? `${Math.ceil(bytes / KIB)} KiB` : `${(bytes / KIB / KIB).toFixed(1)} MiB`;
}

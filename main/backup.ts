/** `npm run backup`: copies the databases while the services run. */
import { resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { backUp } from '../db/backup.ts';
import { databaseUrl, dataFolder, runCommand, UsageError } from './command.ts';

const USAGE = `npm run backup -- <folder>

Copies the databases of DATA_DIR (data) into the folder, which is made, or is there and empty. The services may run meanwhile.
To go back, start them with DATA_DIR set to a copy of that folder.
With DATABASE_URL there is nothing to copy: back PostgreSQL up with pg_dump.
`;

await runCommand(USAGE, async (args) => {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
  const [folder, ...others] = positionals;
  if (folder === undefined || folder === '') throw new UsageError('the folder is missing');
  if (others.length > 0) throw new UsageError('one folder is enough');
  if (databaseUrl() !== undefined) {
    throw new Error('the rows and keys are in PostgreSQL, as DATABASE_URL says: back them up with pg_dump');
  }
  const path = resolve(folder);
  const files = await backUp(dataFolder(), path, endedBySignal());
  console.log(`copied ${files.map(({ file, bytes }) => `${file} (${size(bytes)})`).join(', ')} to ${path}`);
});

/** Aborted when the program is told to end. */
function endedBySignal(): AbortSignal {
  const ended = new AbortController();
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
    // Each time: a second one must not end it before it has cleared away.
    process.on(name, () => ended.abort(new Error(`ended by ${name}`)));
  }
  return ended.signal;
}

function size(bytes: number): string {
  const KIB = 1024;
  return bytes < KIB * KIB ? `${Math.ceil(bytes / KIB)} KiB` : `${(bytes / KIB / KIB).toFixed(1)} MiB`;
}

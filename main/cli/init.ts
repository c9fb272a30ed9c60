/** `ticker-and-tasks init`: writes a handlers module, its test and a `tsconfig.json` to begin with. */
import { constants, copyFileSync, existsSync, mkdirSync, readFileSync } from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { parseArgs } from 'node:util';
import { runCommand, UsageError } from './command.ts';

const USAGE = `ticker-and-tasks init [<folder>]

Writes handlers.ts, handlers.test.ts and tsconfig.json into the folder (default: the working directory), and overwrites no file.
`;

const TEMPLATES = new URL('../../www/init/', import.meta.url);
const FILES = ['handlers.ts', 'handlers.test.ts', 'tsconfig.json'];

await runCommand(USAGE, (args) => {
  const [folder = '', ...others] = parseArgs({ args, allowPositionals: true }).positionals;
  if (others.length > 0) throw new UsageError('too many arguments: name one folder');
  const existing = FILES.find((name) => existsSync(join(folder, name)));
  if (existing !== undefined) throw new Error(`${resolve(folder, existing)} exists: move it, or name another folder`);
  const manifest = packageFile(resolve(folder));
  if (manifest !== undefined && JSON.parse(readFileSync(manifest, 'utf8')).type !== 'module')
    throw new Error('handlers.ts is an ES module: run "npm pkg set type=module" first');
  mkdirSync(resolve(folder), { recursive: true });
  for (const name of FILES) copyFileSync(new URL(name, TEMPLATES), join(folder, name), constants.COPYFILE_EXCL);
  console.log(`wrote ${FILES.join(', ')}. Next:

  npm install --save-dev typescript @types/node
  npx tsc -p ${folder || '.'} && node --test
  TASK_HANDLERS=${join(folder, 'handlers.ts')} npx ticker-and-tasks`);
});

/** Returns the `package.json` that holds for a folder, which need not exist. */
function packageFile(folder: string): string | undefined {
  const file = join(folder, 'package.json');
  if (existsSync(file)) return file;
  return dirname(folder) === folder ? undefined : packageFile(dirname(folder));
}

/** `npm run keys`: lists, creates and revokes API keys, whether or not the services are running. */
import { parseArgs } from 'node:util';
import { runCommand, UsageError } from './command.ts';
import { withKeys } from './key-records.ts';

const USAGE = `npm run keys -- <command>

  list                                  lists all keys: id, user, role, creation time, last four characters
  create --user <user> [--role <role>]  creates a key and prints it once; the default role is "user"
  demo                                  prints the key of the user demo, and nothing else
  revoke <id>                           deletes a key: it can no longer be exchanged for a token

The keys are in the databases in DATA_DIR (default: data), or in PostgreSQL if DATABASE_URL is set.
`;

/** Limited, because tokens contain the user and role names and are sent in a header of limited size. */
const MAX_NAME_LENGTH = 128;

const commands = new Map(Object.entries({ list, create, demo, revoke }));

await runCommand(USAGE, async ([name, ...args]) => {
  if (name === undefined) throw new UsageError('a command is missing');
  const command = commands.get(name);
  if (command === undefined) throw new UsageError(`unknown command ${JSON.stringify(name)}`);
  await command(args);
});

async function list(args: string[]): Promise<void> {
  parseArgs({ args, options: {} });
  const records = await withKeys((keys) => keys.list());
  const rows = records.map(({ id, user_id, role, created_at, ending }) => {
    return [String(id), user_id, role, new Date(created_at * 1000).toISOString(), `…${ending}`].map(printable);
  });
  printTable([['id', 'user', 'role', 'created', 'key'], ...rows]);
}

async function create(args: string[]): Promise<void> {
  const { values } = parseArgs({ args, options: { user: { type: 'string' }, role: { type: 'string' } } });
  if (values.user === undefined) throw new UsageError('--user is missing');
  const [user_id, role] = [readName('--user', values.user), readName('--role', values.role ?? 'user')];
  const { id, apiKey } = await withKeys((keys) => keys.create({ user_id, role }, Math.floor(Date.now() / 1000)));
  console.log(apiKey);
  console.error(`created key ${id} of ${user_id}, role ${role}: it is not shown again`);
  if (user_id === 'demo') console.error('the oldest key of the user demo is logged at every start of the services');
}

async function demo(args: string[]): Promise<void> {
  parseArgs({ args, options: {} });
  const { apiKey } = await withKeys((keys) => keys.ensureDemoUser(Math.floor(Date.now() / 1000)));
  console.log(apiKey);
}

async function revoke(args: string[]): Promise<void> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
  const [text, ...others] = positionals;
  if (text === undefined) throw new UsageError('the id of a key is missing');
  if (others.length > 0) throw new UsageError('revoke takes one id');
  const id = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (!(id > 0)) throw new UsageError(`the id of a key is a whole number, got ${JSON.stringify(text)}`);
  const revoked = await withKeys((keys) => keys.revoke(id));
  if (revoked === undefined) throw new Error(`no key with id ${id}: list keys with "npm run keys -- list"`);
  console.error(`revoked key ${id} of ${printable(revoked.user_id)}: tokens already issued expire within an hour`);
  if (revoked.user_id === 'demo' && revoked.others === 0) {
    console.error('the user demo gets a new key at the next start of the services');
  }
}

function readName(option: string, text: string): string {
  if (text.trim() === '') throw new UsageError(`${option} must not be empty`);
  if (/\p{Cc}/u.test(text)) throw new UsageError(`${option} must hold no control characters`);
  if (text.length > MAX_NAME_LENGTH) throw new UsageError(`${option} must have ${MAX_NAME_LENGTH} characters at most`);
  return text;
}

/** Replaces control characters, because stored names may contain terminal escape sequences. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, '\u{fffd}');
}

function printTable(rows: readonly string[][]): void {
  const widthOf = (column: number) => Math.max(...rows.map((row) => row[column]?.length ?? 0));
  for (const row of rows) {
    const cells = row.map((cell, column) => cell.padEnd(widthOf(column)));
    console.log(cells.join('  ').trimEnd());
  }
}

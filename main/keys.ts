/** `npm run keys`: lists, makes and revokes API keys, beside the running services or without them. */
import { parseArgs } from 'node:util';
import { runCommand, UsageError } from './command.ts';
import { withKeys } from './key-records.ts';

const USAGE = `npm run keys -- <command>

  list                                  all keys: id, user, role, when they were made, their last four characters
  create --user <user> [--role <role>]  makes a key and prints it, this once; the role is "user" where none is given
  revoke <id>                           deletes a key: it is worth no new token from then on

DATA_DIR (data) is the folder of the databases. With DATABASE_URL the keys are in PostgreSQL instead.
`;

/** User and role are in every token, and that is in a header. */
const LONGEST_NAME = 128;

const commands: Readonly<Record<string, (args: string[]) => Promise<void>>> = { list, create, revoke };

await runCommand(USAGE, async ([name, ...args]) => {
  if (name === undefined) throw new UsageError('a command is missing');
  const command = Object.hasOwn(commands, name) ? commands[name] : undefined;
  if (command === undefined) throw new UsageError(`there is no command ${JSON.stringify(name)}`);
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
  console.error(`made key ${id} of ${user_id}, role ${role}: it is not shown again`);
  if (user_id === 'demo') console.error('the oldest key of the user demo is logged at every start of the services');
}

async function revoke(args: string[]): Promise<void> {
  const { positionals } = parseArgs({ args, options: {}, allowPositionals: true });
  const [text, ...others] = positionals;
  if (text === undefined) throw new UsageError('the id of a key is missing');
  if (others.length > 0) throw new UsageError('revoke takes one id');
  const id = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (!(id > 0)) throw new UsageError(`the id of a key is a whole number, got ${JSON.stringify(text)}`);
  const revoked = await withKeys((keys) => keys.revoke(id));
  if (revoked === undefined)
    throw new Error(`there is no key ${id}: "npm run keys -- list" shows those that there are`);
  console.error(`revoked key ${id} of ${printable(revoked.user_id)}: tokens made by it last for an hour at most`);
  if (revoked.user_id === 'demo' && revoked.others === 0) {
    console.error('the user demo gets a new key at the next start of the services');
  }
}

/** @throws {UsageError} for a text that cannot be a user or a role */
function readName(option: string, text: string): string {
  if (text.trim() === '') throw new UsageError(`${option} must not be empty`);
  if (/\p{Cc}/u.test(text)) throw new UsageError(`${option} must hold no control characters`);
  if (text.length > LONGEST_NAME) throw new UsageError(`${option} must have ${LONGEST_NAME} characters at most`);
  return text;
}

/** What is in the table may come from anywhere: nothing of it moves the cursor. */
function printable(text: string): string {
  return text.replace(/\p{Cc}/gu, '\u{fffd}');
}

function printTable(rows: readonly (readonly string[])[]): void {
  const widths = rows.reduce<number[]>(
    (most, row) => row.map((cell, column) => Math.max(most[column] ?? 0, cell.length)),
    [],
  );
  for (const row of rows)
    console.log(
      row
        .map((cell, column) => cell.padEnd(widths[column] ?? 0))
        .join('  ')
        .trimEnd(),
    );
}

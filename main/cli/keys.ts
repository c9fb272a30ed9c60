/** `npm run keys`: lists, creates and revokes API keys, whether or not the services are running. */
import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import type { PostgresApiKeys } from '../../db/postgres/api-keys.ts';
import { ApiKeys, openAuthDatabase } from '../../db/sqlite/api-keys.ts';
import type { Awaitable } from '../../db/task-rows.ts';
import { DatabaseUnavailable } from '../../db/task-store.ts';
import { nearestNames } from '../../workers/shared/nearest-names.ts';
import { policyFiles } from '../ticker/policy.ts';
import { databaseUrl, dataFolder, runCommand, UsageError } from './command.ts';

const USAGE = `npm run keys -- <command>

  list                                  lists all keys: id, user, role, creation time, last four characters
  create --user <user> [--role <role>]  creates a key and prints it once. Roles: user (the default), viewer,
                                        submitter, operator, and those of the files in POLICIES_DIR
  demo                                  prints the key of the user demo, and nothing else
  revoke <id>                           deletes a key: it can no longer be exchanged for a token

The keys are in the databases in DATA_DIR (default: data), or in PostgreSQL if DATABASE_URL is set.
`;

type KeyRecords = Pick<ApiKeys | PostgresApiKeys, 'list' | 'create' | 'revoke' | 'ensureDemoUser'>;

/** Lock timeout of the SQLite file, much longer than any write by the services. */
const BUSY_TIMEOUT_MS = 2000;
const SQLITE_BUSY = 5;
const STATEMENT_TIMEOUT_MS = 5000;
const UNDEFINED_TABLE = '42P01';

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
  await checkRole(role);
  const { id, apiKey } = await withKeys((keys) => keys.create({ user_id, role }, Math.floor(Date.now() / 1000)));
  console.log(apiKey);
  console.error(`created key ${id} of ${user_id}, role ${role}: it is not shown again`);
  if (user_id === 'demo') console.error('the oldest key of the user demo is logged at every start of the services');
}

/** @throws {Error} that names the known roles */
async function checkRole(role: string): Promise<void> {
  const roles = [...(await policyFiles(process.env.POLICIES_DIR || undefined)).keys()];
  if (roles.includes(role)) return;
  const [nearest] = nearestNames(role, roles);
  const hint = nearest === undefined ? '' : `: did you mean ${nearest}?`;
  throw new Error(`--role must be one of ${roles.join(', ')}, got ${JSON.stringify(role)}${hint}`);
}

async function demo(args: string[]): Promise<void> {
  parseArgs({ args, options: {} });
  const { apiKey } = await withKeys((keys) => keys.ensureDemoUser(Math.floor(Date.now() / 1000)));
  console.log(apiKey);
}

async function revoke(args: string[]): Promise<void> {
  const [text, ...others] = parseArgs({ args, allowPositionals: true }).positionals;
  if (text === undefined) throw new UsageError('the id of a key is missing');
  if (others.length > 0) throw new UsageError('revoke takes one id');
  const id = /^\d{1,15}$/.test(text) ? Number(text) : Number.NaN;
  if (!(id > 0)) throw new UsageError(`the id of a key is a whole number, got ${JSON.stringify(text)}`);
  const revoked = await withKeys((keys) => keys.revoke(id));
  if (revoked === undefined) throw new Error(`no key with id ${id}: list keys with "npm run keys -- list"`);
  console.error(
    `revoked key ${id} of ${printable(revoked.user_id)}: its tokens expire within an hour, those for tasks within a day`,
  );
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

/** Opens the API key database for `work`. @throws {Error} with a one-line message that says what to fix */
function withKeys<T>(work: (keys: KeyRecords) => Awaitable<T>): Promise<T> {
  const url = databaseUrl();
  return url === undefined ? withKeysOfFile(join(dataFolder(), 'auth.db'), work) : withKeysOfServer(url, work);
}

async function withKeysOfFile<T>(path: string, work: (keys: KeyRecords) => Awaitable<T>): Promise<T> {
  if (!existsSync(path)) {
    throw new Error(`${path} does not exist: run "npm start" or "npm run migrate", or set DATA_DIR to its folder`);
  }
  const database = openAuthDatabase(path, BUSY_TIMEOUT_MS);
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

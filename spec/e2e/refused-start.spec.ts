import { existsSync, readFileSync, rmSync, truncateSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { start } from '../../main/embed.ts';
import { errorOf } from '../store/stage.ts';
import { temporaryFile, temporaryFolder } from '../support/cleanup.ts';
import { run } from '../support/command.ts';
import { section } from '../support/examples.ts';
import { freePort } from '../support/free-port.ts';
import { migratedFolder, openBeside, runOn } from '../support/migrated-folder.ts';
import { limitedTo, post, projectFolder, startProgram, startServices } from '../support/program.ts';
import { serve } from '../support/server.ts';

const GARBAGE = 'no database '.repeat(1000);
const GUIDE = 'www/guide/troubleshooting.md';
const RESTORE = 'restore it from a backup, or move it and its -wal file away to start with an empty one$';
const NODE = { DATABASE_URL: 'postgres://127.0.0.1:1/none', TOKEN_KEY: 'a key that has more than 32 bytes' };

type Settings = Record<string, string>;

/** Returns the messages that the guide quotes below a heading as patterns. `…` stands for any text. */
function quoted(heading: string): RegExp[] {
  const cells = [...section(GUIDE, heading).matchAll(/^\| (.*?) \|/gm)].map(([, cell = '']) => cell);
  const quotes = cells.flatMap((cell) => [...cell.matchAll(/`([^`]*… ?[^`]*|[^`]{30,})`/g)]);
  const escaped = (quote: string) => quote.replace(/[.*+?^${}()|[\]\\]/g, '\\$&').replaceAll('…', '.*');
  return quotes.map(([, quote = '']) => new RegExp(`^${escaped(quote)}$`));
}

/** Starts services in this process. Returns the message of the error with which the start must fail. */
async function refusal(settings: Settings): Promise<string> {
  const defaults = { HOST: '127.0.0.1', TICKER_PORT: '0', TASKS_PORT: '0', ADMIN_PORT: '0', LOG_LEVEL: 'silent' };
  return (await errorOf(() => start({ settings: { ...defaults, ...settings } }))).message;
}

async function lineOf(env: Settings, within: string[] = []): Promise<string> {
  const program = await startProgram({ env, within });
  expect(await program.exited).to.deep.equal({ code: 1, signal: null });
  const problems = program.lines.filter(({ level }) => level >= 40).map(({ msg }) => msg);
  // Node cannot always write the coverage of a program that ends at once.
  const errors = program.errors().split('\n');
  const [line = '', ...others] = [...problems, ...errors.filter((text) => text !== '' && !/coverage/.test(text))];
  expect(others).to.deep.equal([]);
  return line;
}

const takenPort = async () => String((await serve(() => {})).listener.port);
const sharedPort = (name: string) => async () => ({ [name]: await takenPort(), REUSE_PORT: 'true' });
const takenPorts = async () => ({ TASKS_PORT: await takenPort(), ADMIN_PORT: await takenPort() });
const samePort = async () => {
  const port = String(await freePort());
  return { TASKS_PORT: port, TICKER_PORT: port };
};

const folderWith = (change: (folder: string) => void) => async () => {
  const DATA_DIR = await migratedFolder();
  change(DATA_DIR);
  return { DATA_DIR };
};

/** Overwrites all pages of tasks.db but the first, so that SQLite still recognizes the file. */
const damaged = folderWith((folder) => {
  const path = join(folder, 'tasks.db');
  writeFileSync(path, readFileSync(path).fill(7, 4096));
});

/** A cause is the settings of a start, or a function that prepares a data folder or a port and returns the settings. */
type Refusal = [title: string, cause: Settings | (() => Promise<Settings>), line: RegExp];

const fileWith = (name: string, text: string) => folderWith((folder) => writeFileSync(join(folder, name), text));

const LOG_ONLY = /^cannot migrate .*tasks.db: the file is missing or empty, but .*tasks.db-wal is not: restore /;
const onlyLog = (lose: (path: string) => void) =>
  folderWith((folder) => {
    lose(join(folder, 'tasks.db'));
    writeFileSync(join(folder, 'tasks.db-wal'), 'written last');
  });

const withBadPolicy = async () => ({ POLICIES_DIR: dirname(await temporaryFile('clerk.json', '{}')) });
const newerVersion = folderWith((folder) => void runOn(folder, 'PRAGMA user_version = 1000'));

/** Refused starts by the heading of the guide that quotes the line. */
const refusals: Record<'Start' | 'Several nodes' | 'not quoted', Refusal[]> = {
  Start: [
    ['HOST is an address of another machine', { HOST: '192.0.2.1' }, /^the address does not belong /],
    ['HOST is an unknown name', { HOST: 'nowhere.invalid' }, /^the host name cannot be resolved: /],
    ['the handlers module is missing', { TASK_HANDLERS: './none.ts' }, /^the handlers module .\/none.ts cannot /],
    ['a policy is none', withBadPolicy, /^the policy \S+clerk.json cannot be used: it does not contain a policy$/],
    ['the price source is missing', { PRICE_SOURCE: 'none.csv' }, /^the price source none.csv cannot be used: /],
    ['the data folder cannot be created', { DATA_DIR: '/proc/data' }, /^cannot create the folder \/proc\/data: /],
    ['the data folder is a file', { DATA_DIR: 'package.json' }, /package.json.*DATA_DIR/],
    ...['TICKER_PORT', 'TASKS_PORT'].map((name): Refusal => {
      const line = new RegExp(`^port \\d+ is in use: .* or set ${name}`);
      return [`another program listens on a ${name} that may be shared`, sharedPort(name), line];
    }),
    ['other programs listen on two ports', takenPorts, /^the ports \d+ \(TASKS.* \d+ \(ADMIN.* are in use/],
    ['two listeners have the same port', samePort, /are both \d+: set one of them to another port$/],
    ['a database is of a newer version', newerVersion, /tasks.db: its schema has version 1000, .* supports up to \d+/],
    ['auth.db is not a database', fileWith('auth.db', GARBAGE), new RegExp(`auth.db: file is not a .*: ${RESTORE}`)],
  ],
  'Several nodes': [
    ['DATABASE_URL is set without TOKEN_KEY', { DATABASE_URL: NODE.DATABASE_URL }, /^TOKEN_KEY must be/],
    ['DATABASE_URL is set with a queue driver', { ...NODE, QUEUE_DRIVER: 'sqlite' }, /^QUEUE_DRIVER must be unset if /],
    ['NATS_URL is set', { ...NODE, NATS_URL: 'nats://127.0.0.1:4222' }, /^NATS_URL must be unset: /],
    ['no PostgreSQL server listens', NODE, /^cannot reach PostgreSQL at 127.0.0.1:1\/none: /],
  ],
  'not quoted': [
    ['tasks.db is damaged', damaged, new RegExp(`^cannot migrate \\S+tasks.db: .+: ${RESTORE}`)],
    ['queue.lock is not a database', fileWith('queue.lock', GARBAGE), /queue.lock: file is not a database: delete the/],
    ['tasks.db is missing but its log is not', onlyLog(rmSync), LOG_ONLY],
    ['tasks.db is empty but its log is not', onlyLog(truncateSync), LOG_ONLY],
  ],
};

describe('a start fails with one line', () => {
  const expectQuoted = (line: string, heading: string) =>
    expect(quoted(heading), `${GUIDE} quotes ${line}`).to.satisfy((all: RegExp[]) =>
      all.some((each) => each.test(line)),
    );

  const all = Object.entries(refusals).flatMap(([heading, those]) => those.map((each) => [heading, ...each] as const));
  for (const [heading, title, cause, expected] of all) {
    it(`if ${title}`, async () => {
      const unused = join(await temporaryFolder(), 'data');
      const settings = { DATA_DIR: unused, ...(typeof cause === 'function' ? await cause() : cause) };
      const line = await refusal(settings);
      expect(line).to.match(expected);
      if (heading !== 'not quoted') expectQuoted(line, heading);
      // A shared port is tried only when its listener starts.
      if (!('REUSE_PORT' in settings)) expect(existsSync(unused), 'a folder was created').to.equal(false);
      const log = join(settings.DATA_DIR, 'tasks.db-wal');
      if (existsSync(log)) expect(readFileSync(log, 'utf8')).to.equal('written last');
    });
  }

  it('and exit code 1 if a setting is invalid, the heap is too small, or the limit of open files is too low', async () => {
    const small = { QUEUE_MAX_BYTES: '1000000000', NODE_OPTIONS: '--max-old-space-size=300' };
    for (const [line, expected] of [
      [await lineOf({ TASKS_PORT: 'x' }), /^TASKS_PORT must be a whole number .*, or off, got "x"$/],
      [await lineOf(small), /QUEUE_MAX_BYTES .* more than half of the heap limit .*--max-old-space-size=\d+/],
      [await lineOf({}, limitedTo(100).within), /^the limit of open files is 100: raise it to .* \d+ \(ulimit -n\)/],
    ] as const) {
      expect(line).to.match(expected);
      expectQuoted(line, 'Start');
    }
  });

  it('and exit code 1 if other services use the data folder, which it does not migrate', async () => {
    const { tasks, env } = await startServices();
    const { DATA_DIR } = env;
    // An older version of the services made this folder: a migration would change it under the running process.
    const database = openBeside(DATA_DIR);
    database.exec('PRAGMA user_version = 0; DROP INDEX uncompleted_tasks_by_status');
    const line = await lineOf({ DATA_DIR });
    expect(line).to.equal(`${DATA_DIR} is in use: stop the services that use it, or set DATA_DIR to another folder`);
    expectQuoted(line, 'Start');
    const options = { cwd: projectFolder, env: { ...process.env, DATA_DIR } };
    const migration = await run(process.execPath, ['dist/main', 'migrate'], options);
    expect(migration).to.deep.equal({ code: 1, stdout: '', stderr: `${line}\n` });
    expect(database.prepare('PRAGMA user_version').get()).to.deep.include({ user_version: 0 });
    expect((await post(`${tasks}/tasks`, { action: 'sum' })).status).to.equal(202);
  });
});

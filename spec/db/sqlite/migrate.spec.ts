import {
  chmodSync,
  closeSync,
  copyFileSync,
  existsSync,
  openSync,
  readFileSync,
  renameSync,
  statSync,
  writeFileSync,
  writeSync,
} from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { lockDataFolder } from '../../../db/sqlite/data-folder.ts';
import { checkDamage, createQueueTables, isDamage, migrate } from '../../../db/sqlite/migrate.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { describeWithSmallDisk, mountSmallDisk } from '../../support/small-disk.ts';

function open(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  afterTest(() => database[Symbol.dispose]());
  return database;
}

function tables(path: string): unknown[] {
  const names = open(path).prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  return names.all().map(({ name }) => name);
}

const INSERT_MESSAGE = 'INSERT INTO messages (arrival, id, run_at, accepted_at, body) VALUES';

function rows(database: DatabaseSync, sql: string) {
  return database.prepare(sql).all();
}

/** Creates a migrated data folder, with a connection to one of its files. */
async function migrated(file: 'auth.db' | 'tasks.db' = 'tasks.db') {
  const folder = await temporaryFolder();
  migrate(folder);
  const path = join(folder, file);
  return { folder, path, database: open(path) };
}

/** Returns each column's name, type, default, nullability and primary-key flag. */
function columns(database: DatabaseSync, table: string): unknown[][] {
  return rows(database, `PRAGMA table_info(${table})`).map(({ name, type, notnull, dflt_value, pk }) => {
    return [name, type, notnull === 1 || pk === 1, dflt_value, pk === 1];
  });
}

const schemaOf = (database: DatabaseSync) =>
  rows(database, 'SELECT type, name, sql FROM sqlite_schema ORDER BY type, name');

/** Tables of each database. */
const schemas = {
  auth: ['api_keys'],
  tasks: [
    'tasks',
    'messages',
    'limits',
    'limit_uses',
    'limit_starts',
    'schedules',
    'idempotency_keys',
    'queue_state',
    'queue_history',
  ],
};

/** Expects that the migration of a folder fails, and matches the message. */
const expectFailure = (folder: string, message: RegExp | string) => expect(() => migrate(folder)).to.throw(message);

describe('migrate', () => {
  it('makes again whichever table of tasks.db was dropped, with its indexes, and leaves the others', async () => {
    const { folder, database } = await migrated();
    const before = schemaOf(database);
    for (const table of schemas.tasks) {
      database.exec(`DELETE FROM messages; ${INSERT_MESSAGE} (1, 'a', 1, 1, '{}'); DROP TABLE ${table}`);
      migrate(folder);
      expect(schemaOf(database), table).to.deep.equal(before);
      expect(rows(database, 'SELECT id FROM messages'), table).to.have.lengthOf(table === 'messages' ? 0 : 1);
    }
  });

  it('creates the tables of the queue in memory like in the file, even if the file is attached', async () => {
    const { path } = await migrated();
    const memory = open(':memory:');
    memory.prepare('ATTACH ? AS file').run(path);
    createQueueTables(memory);
    const names = schemas.tasks.filter((table) => table !== 'tasks' && table !== 'queue_history');
    const schema = (of: string) =>
      rows(memory, `SELECT type, name, sql FROM ${of}.sqlite_schema ORDER BY name`).filter(({ sql }) =>
        names.some((name) => sql?.toString().includes(` ${name} (`)),
      );
    expect(schema('main')).to.have.lengthOf(23).and.deep.equal(schema('file'));
  });

  it('adds the tables of the queue and the columns of the attempts to the rows of version 0.1.0', async () => {
    const { folder, path, database } = await migrated();
    database.exec(`DROP TABLE messages; DROP TABLE schedules; DROP TABLE idempotency_keys; DROP TABLE queue_state;
      ALTER TABLE tasks DROP COLUMN attempts; ALTER TABLE tasks DROP COLUMN history; PRAGMA user_version = 3;
      INSERT INTO tasks (id, payload, created_at) VALUES ('a', '{}', 1)`);
    migrate(folder);
    expect(tables(path)).to.have.members(schemas.tasks);
    expect(rows(database, 'SELECT id, attempts, history FROM tasks')).to.deep.equal([
      { id: 'a', attempts: null, history: null },
    ]);
  });

  it('creates files that no other user can read, even in a folder that others can read, and the folder of the lock for its owner only', async () => {
    const folder = join(await temporaryFolder(), 'a', 'b');
    lockDataFolder(folder)();
    expect(statSync(folder).mode & 0o777).to.equal(0o700);
    chmodSync(folder, 0o755);
    migrate(folder);
    for (const name of Object.keys(schemas)) {
      expect(statSync(join(folder, `${name}.db`)).mode & 0o777, name).to.equal(0o600);
    }
  });

  it('adopts a table that was made without it, with its rows', async () => {
    const folder = await temporaryFolder();
    const database = open(join(folder, 'tasks.db'));
    database.exec(`CREATE TABLE tasks (id TEXT PRIMARY KEY, payload TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'pending',
      result TEXT, created_at INTEGER NOT NULL, processed_at INTEGER);
      INSERT INTO tasks (id, payload, created_at) VALUES ('old', '{}', 1)`);
    migrate(folder);
    expect(database.prepare('SELECT id FROM tasks').all()).to.deep.equal([{ id: 'old' }]);
  });

  it('refuses a schema that is newer than it knows, and leaves it', async () => {
    const { folder, path, database } = await migrated();
    database.exec('PRAGMA user_version = 99; DROP TABLE tasks');
    expectFailure(folder, /tasks\.db: .*99/);
    expect(tables(path)).to.not.include('tasks');
  });

  it('makes tables that begin with the columns of the specification', async () => {
    expect(columns((await migrated('auth.db')).database, 'api_keys')).to.deep.equal([
      ['id', 'INTEGER', true, null, true],
      ['api_key', 'TEXT', true, null, false],
      ['user_id', 'TEXT', true, null, false],
      ['role', 'TEXT', true, "'user'", false],
      ['created_at', 'INTEGER', true, null, false],
    ]);
    expect(columns((await migrated('tasks.db')).database, 'tasks').slice(0, 6)).to.deep.equal([
      ['id', 'TEXT', true, null, true],
      ['payload', 'TEXT', true, null, false],
      ['status', 'TEXT', true, "'pending'", false],
      ['result', 'TEXT', false, null, false],
      ['created_at', 'INTEGER', true, null, false],
      ['processed_at', 'INTEGER', false, null, false],
    ]);
  });
});

const OLD_COLUMNS = 'seq, turn, id, body, first_at';

/** Creates a data folder, and adds the queue of an older version. */
async function withOldQueue() {
  const folder = await temporaryFolder();
  migrate(folder);
  const path = join(folder, 'queue.db');
  const old = open(path);
  old.exec(readFileSync(new URL('fixtures/queue-killed.sql', import.meta.url), 'utf8'));
  // Closing a database in WAL mode deletes its log. A killed process leaves the log beside the file.
  old.exec('PRAGMA journal_mode = WAL');
  return { folder, path, old, tasks: () => open(join(folder, 'tasks.db')) };
}

/** Returns the messages with only the first characters of their ids, in the order in which they will run. */
function messages(database: DatabaseSync) {
  return rows(
    database,
    `SELECT substr(id, 1, 4) AS id, state, deaths, attempts, crashes, delivery, substr(action, 1, 6) AS action,
       reason, permanent FROM messages ORDER BY state = 'failed', run_at, arrival`,
  );
}

const waiting = { state: 'waiting', deaths: 0, attempts: 0, crashes: 0, delivery: 0 };
const unfailed = { reason: null, permanent: 0 };
const failed = { ...waiting, state: 'failed', attempts: 1 };

describe('the migration of a queue in its own file', () => {
  it('keeps the messages, dead letters, idempotency keys and the pause of a killed process', async () => {
    const { folder, path, old, tasks } = await withOldQueue();
    const keys = rows(old, 'SELECT * FROM idempotency_keys');
    const ages = rows(old, 'SELECT id, first_at FROM messages UNION SELECT id, first_at FROM dead_letters ORDER BY id');
    old.close();
    migrate(folder);
    const database = tasks();
    const refused = 'data.numbers must hold finite numbers only';
    expect(messages(database)).to.deep.equal([
      { id: '2c64', ...waiting, state: 'running', deaths: 1, action: 'slow', ...unfailed },
      { id: '3f82', ...waiting, deaths: 1, action: 'slow', ...unfailed },
      { id: '97e1', ...waiting, action: 'quick', ...unfailed },
      { id: '9973', ...waiting, action: 'xxxxxx', ...unfailed },
      {
        id: '8645',
        ...waiting,
        state: 'retrying',
        attempts: 1,
        action: 'later',
        reason: 'the receiver is busy',
        permanent: 0,
      },
      { id: '9a5c', ...failed, action: 'sum', reason: refused, permanent: 1 },
      { id: '23bc', ...failed, action: 'once', reason: 'connection refused', permanent: 0 },
    ]);
    expect(rows(database, 'SELECT id, accepted_at AS first_at FROM messages ORDER BY id')).to.deep.equal(ages);
    expect(rows(database, 'SELECT * FROM idempotency_keys')).to.deep.equal(keys);
    expect(rows(database, 'SELECT paused FROM queue_state')).to.deep.equal([{ paused: 1 }]);
    expect(rows(database, "SELECT run_at FROM messages WHERE action = 'later'")).to.deep.equal([
      { run_at: 1795395790648 },
    ]);
    expect(rows(database, "SELECT arrival, failed_at, history FROM messages WHERE action = 'once'")).to.deep.equal([
      {
        arrival: 1795392190340003,
        failed_at: 1795392190645,
        history:
          '{"waitedMs":null,"ranMs":0,"attempts":[{"startedAt":null,"endedAt":1795392190645,"reason":"connection refused"}]}',
      },
    ]);
    expect(rows(database, 'SELECT max(length(action)) AS longest FROM messages')).to.deep.equal([{ longest: 256 }]);
    expect(rows(database, 'SELECT id FROM messages WHERE run_at > accepted_at').length).to.equal(1 + 2);
    for (const suffix of ['', '-wal', '-shm']) expect(existsSync(path + suffix), suffix).to.equal(false);
    expect(rows(open(`${path}.migrated`), 'SELECT id FROM messages')).to.have.lengthOf(5);
  });

  it('reads what only the log holds', async () => {
    const { folder, path, old, tasks } = await withOldQueue();
    old.exec(`INSERT INTO messages (${OLD_COLUMNS}) VALUES (9, 9, 'logged', '{}', 1)`);
    // Copies of the files as a killed process leaves them.
    for (const suffix of ['', '-wal']) copyFileSync(path + suffix, `${path}.copy${suffix}`);
    old.close();
    for (const suffix of ['', '-wal']) renameSync(`${path}.copy${suffix}`, path + suffix);
    migrate(folder);
    expect(messages(tasks())).to.have.lengthOf(8);
    expect(existsSync(`${path}-wal`)).to.equal(false);
  });

  it('continues after the process was killed between the commit and the renaming', async () => {
    const { folder, path, old, tasks } = await withOldQueue();
    old.close();
    migrate(folder);
    const before = rows(tasks(), 'SELECT * FROM messages');
    renameSync(`${path}.migrated`, path);
    migrate(folder);
    expect(rows(tasks(), 'SELECT * FROM messages')).to.deep.equal(before);
    expect(rows(tasks(), 'SELECT paused FROM queue_state')).to.deep.equal([{ paused: 1 }]);
    expect(existsSync(path)).to.equal(false);
  });

  it('leaves out completed tasks', async () => {
    const { folder, old, tasks } = await withOldQueue();
    const insert = tasks().prepare("INSERT INTO tasks (id, payload, created_at) VALUES (?, '{}', 1)");
    for (const { id } of rows(old, 'SELECT id FROM messages UNION SELECT id FROM dead_letters')) {
      if (/^(2c64|9a5c)/.test(id as string)) insert.run(id as string);
    }
    old.close();
    migrate(folder);
    expect(messages(tasks()).map(({ id }) => id)).to.deep.equal(['3f82', '97e1', '9973', '8645', '23bc']);
  });

  it('keeps the order of delivery, and arrival numbers that are free', async () => {
    const { folder, old, tasks } = await withOldQueue();
    tasks().exec(`${INSERT_MESSAGE} (7, 'newer', 9000, 9000, '{}')`);
    old.exec(`DELETE FROM messages; DELETE FROM dead_letters;
      INSERT INTO messages (${OLD_COLUMNS}) VALUES (6, 9, 'fourth', '{}', 5000), (7, 8, 'third', '{}', 5000),
        (8, 3, 'first', '{}', 8000), (9, 5, 'second', 'no JSON', 5000)`);
    old.close();
    migrate(folder);
    expect(rows(tasks(), 'SELECT id, arrival FROM messages ORDER BY run_at')).to.deep.equal([
      { id: 'first', arrival: 8 },
      { id: 'second', arrival: 9 },
      { id: 'third', arrival: 10 },
      { id: 'fourth', arrival: 6 },
      { id: 'newer', arrival: 7 },
    ]);
  });

  it('refuses the queue of another version, and leaves it as it is', async () => {
    const { folder, path, old } = await withOldQueue();
    old.exec('PRAGMA user_version = 7');
    old.close();
    expectFailure(
      folder,
      `cannot migrate ${path}: its schema has version 7, only version 8 can be moved: move it away to start without its tasks`,
    );
    expect(rows(open(path), 'SELECT id FROM messages')).to.have.lengthOf(5);
  });

  it('reports an empty file, whose data was possibly lost', async () => {
    const folder = await temporaryFolder();
    migrate(folder);
    writeFileSync(join(folder, 'queue.db'), '');
    expect(migrate(folder)).to.deep.equal([{ file: join(folder, 'queue.db'), wasEmpty: true }]);
    expect(migrate(folder)).to.deep.equal([]);
  });
});

describeWithSmallDisk('migrate() on a full disk', () => {
  it('names the file and what to do, and succeeds once there is space', async () => {
    const disk = await mountSmallDisk(4);
    disk.fill();
    const path = join(disk.path, 'auth.db');
    const remedy = 'free some space on the disk of DATA_DIR$';
    expectFailure(disk.path, new RegExp(`^cannot migrate ${path}: .*: ${remedy}`));
    await disk.free();
    migrate(disk.path);
    disk.fill();
    // Without migration steps.
    expectFailure(disk.path, new RegExp(`: ${remedy}`));
    await disk.free();
    migrate(disk.path);
    expect(tables(path)).to.include('api_keys');
  });
});

const PAGE = 4096;

/** Opens a database with a table of many pages, one of which may be overwritten. */
async function database(damagedPage?: (pages: number) => number): Promise<DatabaseSync> {
  const path = join(await temporaryFolder(), 'a.db');
  const made = new DatabaseSync(path);
  made.exec('CREATE TABLE t (x); BEGIN');
  const insert = made.prepare('INSERT INTO t VALUES (?)');
  for (let row = 0; row < 500; row++) insert.run('x'.repeat(200));
  made.exec('COMMIT');
  const { page_count: pages } = made.prepare('PRAGMA page_count').get() as { page_count: number };
  made.close();
  if (damagedPage !== undefined) {
    const file = openSync(path, 'r+');
    writeSync(file, Buffer.alloc(PAGE, 7), 0, PAGE, PAGE * Math.floor(damagedPage(pages)));
    closeSync(file);
  }
  const opened = new DatabaseSync(path);
  afterTest(() => opened.close());
  return opened;
}

describe('checkDamage', () => {
  for (const [what, damagedPage, maxWholeCheck, message] of [
    ['nothing in a sound database', undefined, undefined, undefined],
    ['nothing in a sound database that is too large for a whole check', undefined, 0, undefined],
    ['a damaged page in the middle, and says so in one line', (pages) => pages / 2, undefined, /^it is damaged: .*$/],
    ['a damaged root of a large table by reading its first and last row', () => 1, 0, /image is malformed$/],
  ] as [string, ((pages: number) => number) | undefined, number | undefined, RegExp | undefined][]) {
    it(`finds ${what}`, async () => {
      const opened = await database(damagedPage);
      const check = () => checkDamage(opened, maxWholeCheck);
      if (message === undefined) check();
      else expect(check).to.throw(message).and.satisfy(isDamage);
    });
  }
});

describe('isDamage', () => {
  it('tells damage from a lock and from a bug', () => {
    expect(
      [11, 26, 267, 5, undefined].map((errcode) => isDamage(Object.assign(new Error(), { errcode }))),
    ).to.deep.equal([true, true, true, false, false]);
  });
});

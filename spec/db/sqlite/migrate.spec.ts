import fs, { chmodSync, copyFileSync, existsSync, readFileSync, renameSync, statSync, writeFileSync } from 'node:fs';
import { syncBuiltinESMExports } from 'node:module';
import { join } from 'node:path';
import type { DatabaseSync } from 'node:sqlite';
import { mock } from 'node:test';
import { expect } from 'chai';
import { lockDataFolder } from '../../../db/sqlite/data-folder.ts';
import { checkDamage, migrate } from '../../../db/sqlite/migrate.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { openBeside, runOn } from '../../support/migrated-folder.ts';
import { describeWithSmallDisk, mountSmallDisk } from '../../support/small-disk.ts';

const INSERT_MESSAGE = 'INSERT INTO messages (arrival, id, run_at, accepted_at, body) VALUES';

function rows(database: DatabaseSync, sql: string) {
  return database.prepare(sql).all();
}

async function migrated() {
  const folder = await temporaryFolder();
  migrate(folder);
  return { folder, auth: openBeside(folder, 'auth.db'), tasks: openBeside(folder) };
}

const columnsOf = (table: string) => `SELECT name || ' ' || type || iif("notnull" OR pk, '', ' null')
    || ifnull(' default ' || dflt_value, '') || iif(pk, ' key', '') AS told FROM pragma_table_info('${table}')`;

const schemaOf = (database: DatabaseSync) =>
  rows(database, "SELECT type, name, sql FROM sqlite_schema WHERE name NOT LIKE 'sqlite_%' ORDER BY type, name");

const expectFailure = (folder: string, message: RegExp | string) => expect(() => migrate(folder)).to.throw(message);

describe('migrate', () => {
  it('makes again whichever table of tasks.db was dropped, with its indexes, and leaves the others', async () => {
    const { folder, tasks } = await migrated();
    const before = schemaOf(tasks);
    const tables = before.filter(({ type }) => type === 'table').map(({ name }) => name);
    expect(tables).to.have.length(9);
    const contents = () => tables.map((table) => rows(tasks, `SELECT * FROM ${table}`));
    for (const [index, dropped] of tables.entries()) {
      for (const table of tables) {
        const columns = rows(tasks, `SELECT 1 FROM pragma_table_info('${table}')`);
        tasks.exec(`INSERT OR REPLACE INTO ${table} VALUES (${columns.map(() => 1)})`);
      }
      const filled = contents();
      tasks.exec(`DROP TABLE ${dropped}`);
      migrate(folder);
      expect(schemaOf(tasks), `${dropped}`).to.deep.equal(before);
      expect(contents(), `${dropped}`).to.deep.equal(filled.with(index, []));
    }
  });

  it('creates files that no other user can read, even in a folder that others can read, and the folder of the lock for its owner only', async () => {
    const folder = join(await temporaryFolder(), 'a', 'b');
    lockDataFolder(folder)();
    expect(statSync(folder).mode & 0o777).to.equal(0o700);
    chmodSync(folder, 0o755);
    migrate(folder);
    for (const file of ['auth.db', 'tasks.db']) expect(statSync(join(folder, file)).mode & 0o777, file).to.equal(0o600);
  });

  it('adopts a table that was made by another program or by an older version, with its rows', async () => {
    const folder = await temporaryFolder();
    const database = openBeside(folder);
    database.exec(`CREATE TABLE tasks (id TEXT PRIMARY KEY, payload TEXT NOT NULL, status TEXT NOT NULL DEFAULT 'pending',
      result TEXT, created_at INTEGER NOT NULL, processed_at INTEGER, attempts INTEGER); PRAGMA user_version = 3;
      INSERT INTO tasks (id, payload, created_at) VALUES ('old', '{}', 1)`);
    migrate(folder);
    const { tasks } = await migrated();
    expect(schemaOf(database).map(({ name }) => name)).to.deep.equal(schemaOf(tasks).map(({ name }) => name));
    const old = { id: 'old', attempts: null, history: null };
    expect(rows(database, 'SELECT id, attempts, history FROM tasks')).to.deep.equal([old]);
  });

  it('changes nothing if a step fails', async () => {
    const folder = await temporaryFolder();
    const database = openBeside(folder);
    database.exec('CREATE TABLE idempotency_keys (key TEXT)');
    expectFailure(folder, 'no such column: accepted_at');
    expect(schemaOf(database)).to.have.length(1);
  });

  it('makes tables that begin with the columns of the specification', async () => {
    const { auth, tasks } = await migrated();
    const columns = (database: DatabaseSync, table: string) => rows(database, columnsOf(table)).map(({ told }) => told);
    const keyColumns = ['id INTEGER key', 'api_key TEXT', 'user_id TEXT', "role TEXT default 'user'"];
    expect(columns(auth, 'api_keys')).to.deep.equal([...keyColumns, 'created_at INTEGER']);
    const [status, end] = ["status TEXT default 'pending'", 'processed_at INTEGER null'];
    const taskColumns = ['id TEXT key', 'payload TEXT', status, 'result TEXT null', 'created_at INTEGER', end];
    expect(columns(tasks, 'tasks').slice(0, 6)).to.deep.equal(taskColumns);
  });
});

const OLD_COLUMNS = 'seq, turn, id, body, first_at';

async function withOldQueue() {
  const folder = await temporaryFolder();
  migrate(folder);
  const path = join(folder, 'queue.db');
  const old = openBeside(folder, 'queue.db');
  old.exec('PRAGMA journal_mode = WAL');
  old.exec(readFileSync(new URL('fixtures/queue-killed.sql', import.meta.url), 'utf8'));
  return { folder, path, old, tasks: openBeside(folder) };
}

/** Returns the messages with only the first characters of their ids, in the order in which they will run. */
function messages(database: DatabaseSync) {
  return rows(
    database,
    `SELECT substr(id, 1, 4) AS id, state, deaths, attempts, crashes, delivery, substr(action, 1, 6) AS action,
       reason, permanent FROM messages ORDER BY state = 'failed', run_at, arrival`,
  );
}

const none = { deaths: 0, attempts: 0, crashes: 0, delivery: 0, reason: null, permanent: 0 };
const waiting = { state: 'waiting', ...none };
const failed = { ...waiting, state: 'failed', attempts: 1 };

describe('the migration of a queue in its own file', () => {
  it('keeps the messages, dead letters, idempotency keys and the pause of a killed process, also if killed itself', async () => {
    const { folder, path, old, tasks } = await withOldQueue();
    const keys = rows(old, 'SELECT * FROM idempotency_keys');
    const ages = rows(old, 'SELECT id, first_at FROM messages UNION SELECT id, first_at FROM dead_letters ORDER BY id');
    // Leaves the log beside its file, as a killed process does.
    for (const suffix of ['', '-wal']) copyFileSync(path + suffix, `${path}.copy${suffix}`);
    old.close();
    for (const suffix of ['', '-wal']) renameSync(`${path}.copy${suffix}`, path + suffix);
    const isKept: boolean[] = [];
    mock.method(fs, 'fsyncSync', () => isKept.push(existsSync(path)));
    syncBuiltinESMExports();
    afterTest(syncBuiltinESMExports);
    migrate(folder);
    expect(isKept, 'synced after the renaming').to.deep.equal([false]);
    // A process that is killed between the commit and the renaming leaves both.
    renameSync(`${path}.migrated`, path);
    migrate(folder);
    const refused = 'data.numbers must hold finite numbers only';
    const retrying = { state: 'retrying', attempts: 1, reason: 'the receiver is busy' };
    expect(messages(tasks)).to.deep.equal([
      { id: '2c64', ...waiting, state: 'running', deaths: 1, action: 'slow' },
      { id: '3f82', ...waiting, deaths: 1, action: 'slow' },
      { id: '97e1', ...waiting, action: 'quick' },
      { id: '9973', ...waiting, action: 'xxxxxx' },
      { id: '8645', ...waiting, ...retrying, action: 'later' },
      { id: '9a5c', ...failed, action: 'sum', reason: refused, permanent: 1 },
      { id: '23bc', ...failed, action: 'once', reason: 'connection refused' },
    ]);
    expect(rows(tasks, 'SELECT id, accepted_at AS first_at FROM messages ORDER BY id')).to.deep.equal(ages);
    expect(rows(tasks, 'SELECT * FROM idempotency_keys')).to.deep.equal(keys);
    expect(rows(tasks, 'SELECT paused FROM queue_state')).to.deep.equal([{ paused: 1 }]);
    const attempt = '{"startedAt":null,"endedAt":1795392190645,"reason":"connection refused"}';
    const history = `{"waitedMs":null,"ranMs":0,"attempts":[${attempt}]}`;
    const once = "SELECT arrival, failed_at, history FROM messages WHERE action = 'once'";
    expect(rows(tasks, once)).to.deep.equal([{ arrival: 1795392190340003, failed_at: 1795392190645, history }]);
    const later = 'SELECT max(length(action)) AS longest, max(run_at) AS due FROM messages';
    expect(rows(tasks, later)).to.deep.equal([{ longest: 256, due: 1795395790648 }]);
    expect(rows(tasks, 'SELECT id FROM messages WHERE run_at > accepted_at').length).to.equal(1 + 2);
    for (const suffix of ['', '-wal', '-shm']) expect(existsSync(path + suffix), suffix).to.equal(false);
    expect(runOn(folder, 'SELECT id FROM messages', 'queue.db.migrated')).to.have.lengthOf(5);
  });

  it('leaves out completed tasks, and keeps the order of delivery and arrival numbers that are free', async () => {
    const { folder, old, tasks } = await withOldQueue();
    tasks.exec(`${INSERT_MESSAGE} (7, 'newer', 9000, 9000, '{}');
      INSERT INTO tasks (id, payload, created_at) VALUES ('completed', '{}', 1)`);
    old.exec(`DELETE FROM messages; DELETE FROM dead_letters;
      INSERT INTO messages (${OLD_COLUMNS}) VALUES (6, 9, 'fourth', '{}', 5000), (7, 8, 'third', '{}', 5000),
        (8, 3, 'first', '{}', 8000), (9, 5, 'second', 'no JSON', 5000), (10, 1, 'completed', '{}', 1)`);
    old.close();
    migrate(folder);
    const arrivals = rows(tasks, 'SELECT id, arrival FROM messages ORDER BY run_at');
    expect(arrivals.map(({ id, arrival }) => `${id} ${arrival}`)).to.deep.equal([
      ...['first 8', 'second 9', 'third 10', 'fourth 6', 'newer 7'],
    ]);
  });

  it('refuses the queue of another version or in a damaged file, and leaves it as it is', async () => {
    const { folder, path, old } = await withOldQueue();
    old.exec('PRAGMA user_version = 7');
    old.close();
    const reason = 'its schema has version 7, only version 8 can be moved: move it away to start without its tasks';
    expectFailure(folder, `cannot migrate ${path}: ${reason}`);
    expect(runOn(folder, 'SELECT id FROM messages', 'queue.db')).to.have.lengthOf(5);
    // The root of an index that the move does not read.
    const find = "SELECT rootpage FROM sqlite_schema WHERE name = 'idempotency_keys_by_age'";
    const [{ rootpage } = {}] = runOn(folder, find, 'queue.db');
    writeFileSync(path, readFileSync(path).fill(7, 4096 * (Number(rootpage) - 1), 4096 * Number(rootpage)));
    expectFailure(folder, /^cannot migrate .*queue\.db: .*damaged/);
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
    const remedy = 'free some space on the disk of DATA_DIR$';
    expectFailure(disk.path, new RegExp(`^cannot migrate ${join(disk.path, 'auth.db')}: .*: ${remedy}`));
    await disk.free();
    migrate(disk.path);
    disk.fill();
    // Without migration steps.
    expectFailure(disk.path, new RegExp(`: ${remedy}`));
    await disk.free();
    migrate(disk.path);
    expect(runOn(disk.path, 'SELECT * FROM api_keys', 'auth.db')).to.deep.equal([]);
  });
});

describe('a database', () => {
  it('is damaged if a page cannot be read, or, if it is too large to check each, the first or last row of a table', async () => {
    const folder = await temporaryFolder();
    const [path, database] = [join(folder, 'a.db'), openBeside(folder, 'a.db')];
    database.exec(`CREATE TABLE t (x); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 500)
      INSERT INTO t SELECT hex(zeroblob(100)) FROM n`);
    checkDamage(database, 0);
    database.close();
    // A page that is read neither first nor last, and then those of the first and the last row.
    writeFileSync(path, readFileSync(path).fill(7, 40_960, 45_056));
    expect(() => checkDamage(openBeside(folder, 'a.db'))).to.throw(/^it is damaged: /);
    const whole = readFileSync(path);
    for (const start of [8192, whole.length - 4096]) {
      writeFileSync(path, Buffer.from(whole).fill(7, start, start + 4096));
      expect(() => checkDamage(openBeside(folder, 'a.db'), 0), `${start}`).to.throw(/image is malformed$/);
    }
  });
});

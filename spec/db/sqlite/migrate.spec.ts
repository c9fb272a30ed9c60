import { chmodSync, existsSync, mkdirSync, readFileSync, rmSync, statSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { Database } from '../../../db/sqlite/database.ts';
import { migrate, schemas } from '../../../db/sqlite/migrate.ts';
import { Tasks } from '../../../db/sqlite/tasks.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { describeWithSmallDisk, mountSmallDisk } from '../../support/small-disk.ts';

function open(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  afterTest(() => database.close());
  return database;
}

function tables(path: string): unknown[] {
  const names = open(path).prepare("SELECT name FROM sqlite_schema WHERE type = 'table' AND name NOT LIKE 'sqlite_%'");
  return names.all().map(({ name }) => name);
}

/** Migrates `folder` and returns the message of the error. */
function failure(folder: string): string {
  try {
    migrate(folder);
  } catch (error) {
    return (error as Error).message;
  }
  throw new Error('the migration did not fail');
}

describe('migrate', () => {
  it('makes again whichever table of queue.db was dropped, and leaves the others', async () => {
    for (const table of ['messages', 'dead_letters', 'idempotency_keys', 'pauses']) {
      const folder = await temporaryFolder();
      migrate(folder);
      const database = open(join(folder, 'queue.db'));
      database.exec(
        `INSERT INTO messages (seq, turn, id, body, first_at) VALUES (1, 1, 'a', '', 1); DROP TABLE ${table}`,
      );
      migrate(folder);
      expect(tables(join(folder, 'queue.db'))).to.have.members([
        'messages',
        'dead_letters',
        'idempotency_keys',
        'pauses',
      ]);
      const kept = database.prepare('SELECT count(*) AS n FROM messages').get();
      expect(kept, table).to.deep.include({ n: table === 'messages' ? 0 : 1 });
    }
  });

  it('indexes the actions of rows that an earlier version stored', async () => {
    const folder = await temporaryFolder();
    migrate(folder);
    const path = join(folder, 'tasks.db');
    const database = open(path);
    database.exec('DROP INDEX tasks_by_action; PRAGMA user_version = 1');
    const insert = database.prepare(
      "INSERT INTO tasks (id, payload, status, created_at) VALUES (?, ?, 'completed', ?)",
    );
    const ids = ['sum', 'uppercase', 'sum', 'other'].map((action, index) => {
      const id = `00000000-0000-4000-8000-00000000000${index}`;
      insert.run(id, JSON.stringify({ id, action, data: {}, created_at: index }), index);
      return id;
    });
    insert.run('a', 'of another form', 9);
    migrate(folder);
    const rows = new Database(path, { busyTimeoutMs: 50 });
    afterTest(() => rows.close());
    expect(new Tasks(rows).list({ action: 'sum' }).map(({ id }) => id)).to.deep.equal([ids[2], ids[0]]);
  });

  it('creates files that no other user can read, even in a folder that others can read', async () => {
    const folder = await temporaryFolder();
    chmodSync(folder, 0o755);
    migrate(folder);
    for (const name of Object.keys(schemas)) {
      expect(statSync(join(folder, `${name}.db`)).mode & 0o777, name).to.equal(0o600);
    }
  });

  it('creates the folder and both databases with their tables', async () => {
    const folder = join(await temporaryFolder(), 'not', 'there');
    migrate(folder);
    expect(tables(join(folder, 'auth.db'))).to.deep.equal(['api_keys']);
    expect(tables(join(folder, 'tasks.db'))).to.deep.equal(['tasks']);
  });

  it('makes a folder that is closed to other users', async () => {
    const folder = join(await temporaryFolder(), 'data');
    migrate(folder);
    expect(statSync(folder).mode & 0o077).to.equal(0);
  });

  it('turns write-ahead logging on', async () => {
    const folder = await temporaryFolder();
    migrate(folder);
    for (const file of ['auth.db', 'tasks.db']) {
      expect(open(join(folder, file)).prepare('PRAGMA journal_mode').get()).to.deep.equal({ journal_mode: 'wal' });
    }
  });

  it('changes nothing the second time, and keeps the rows', async () => {
    const folder = await temporaryFolder();
    migrate(folder);
    const database = open(join(folder, 'tasks.db'));
    database.exec("INSERT INTO tasks (id, payload, created_at) VALUES ('a', '{}', 1)");
    const schema = () => database.prepare('SELECT * FROM sqlite_schema').all();
    const before = schema();
    migrate(folder);
    migrate(folder);
    expect(schema()).to.deep.equal(before);
    expect(database.prepare('SELECT id FROM tasks').all()).to.deep.equal([{ id: 'a' }]);
  });

  it('creates a table and its indexes again when somebody dropped them', async () => {
    const folder = await temporaryFolder();
    migrate(folder);
    const database = open(join(folder, 'tasks.db'));
    const schema = () => database.prepare('SELECT type, name, sql FROM sqlite_schema ORDER BY name').all();
    const before = schema();
    database.exec('DROP TABLE tasks');
    migrate(folder);
    expect(schema()).to.deep.equal(before);
  });

  it('creates the database that is missing and leaves the other alone', async () => {
    const folder = await temporaryFolder();
    migrate(folder);
    const keys = open(join(folder, 'auth.db'));
    keys.exec("INSERT INTO api_keys (api_key, user_id, created_at) VALUES ('k', 'alice', 1)");
    rmSync(join(folder, 'tasks.db'));
    migrate(folder);
    expect(tables(join(folder, 'tasks.db'))).to.deep.equal(['tasks']);
    expect(keys.prepare('SELECT user_id FROM api_keys').all()).to.deep.equal([{ user_id: 'alice' }]);
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
    const folder = await temporaryFolder();
    migrate(folder);
    const path = join(folder, 'tasks.db');
    open(path).exec('PRAGMA user_version = 99; DROP TABLE tasks');
    expect(failure(folder)).to.match(/tasks\.db: .*99/);
    expect(tables(path)).to.deep.equal([]);
  });

  it('names in one line the file that is no database, and leaves it as it is', async () => {
    const folder = await temporaryFolder();
    const path = join(folder, 'tasks.db');
    writeFileSync(path, 'garbage '.repeat(1000));
    const remedy = 'restore it from a backup, or move it and its -wal file away to start with an empty one';
    expect(failure(folder)).to.equal(`cannot migrate ${path}: file is not a database: ${remedy}`);
    expect(readFileSync(path, 'utf8')).to.equal('garbage '.repeat(1000));
  });

  it('names in one line the folder that is in the place of a file, and says what to do', async () => {
    const folder = await temporaryFolder();
    const path = join(folder, 'auth.db');
    mkdirSync(path);
    expect(failure(folder)).to.match(/^cannot migrate .*auth\.db: EISDIR.*: restore it from a backup, or move it .*$/);
  });

  it('says in one line why the folder cannot be made', async () => {
    const file = join(await temporaryFolder(), 'file');
    writeFileSync(file, '');
    expect(failure(join(file, 'data'))).to.match(
      /^cannot create the folder .*: ENOTDIR.*: set DATA_DIR to another folder$/,
    );
  });

  it('says in one line that a folder cannot be written to', async () => {
    // File modes do not restrict root, but not even root can create a file in /sys.
    const folder = process.getuid?.() === 0 ? '/sys' : await temporaryFolder();
    if (folder !== '/sys') chmodSync(folder, 0o500);
    expect(failure(folder)).to.match(/^cannot migrate .*auth\.db: .*$/);
    expect(existsSync(join(folder, 'auth.db'))).to.equal(false);
  });
});

describeWithSmallDisk('migrate() on a full disk', () => {
  it('names the file and what to do, and succeeds once there is space', async () => {
    const disk = await mountSmallDisk(4);
    disk.fill();
    const path = join(disk.path, 'auth.db');
    expect(failure(disk.path)).to.match(
      new RegExp(`^cannot migrate ${path}: .*: free some space on the disk of DATA_DIR$`),
    );
    await disk.free();
    migrate(disk.path);
    disk.fill();
    expect(failure(disk.path), 'without migration steps').to.match(/: free some space on the disk of DATA_DIR$/);
    await disk.free();
    migrate(disk.path);
    expect(tables(path)).to.include('api_keys');
  });
});

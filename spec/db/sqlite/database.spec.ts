import { execFileSync } from 'node:child_process';
import { existsSync, mkdirSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { mock } from 'node:test';
import { expect } from 'chai';
import { Database, type DatabaseOptions } from '../../../db/sqlite/database.ts';
import { DatabaseUnavailable } from '../../../db/task-store.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';

function makeFile(path: string, word = 'first'): void {
  using file = new DatabaseSync(path);
  file.exec(`PRAGMA journal_mode = WAL; CREATE TABLE words (word TEXT); INSERT INTO words VALUES ('${word}')`);
}

function connectTo(path: string, options: Partial<DatabaseOptions> = {}): Database {
  const database = new Database(path, { busyTimeoutMs: 50, ...options });
  afterTest(() => database.close());
  return database;
}

async function fresh(name = 'words.db'): Promise<{ path: string; database: Database }> {
  const path = join(await temporaryFolder(), name);
  makeFile(path);
  return { path, database: connectTo(path) };
}

function exchange(path: string): void {
  makeFile(`${path}.other`, 'exchanged');
  for (const suffix of ['-wal', '-shm']) rmSync(path + suffix, { force: true });
  renameSync(`${path}.other`, path);
}

const read = (database: Database) => database.statement('SELECT word FROM words ORDER BY rowid').all();

describe('Database', () => {
  it('takes a path with characters that mean something in an address', async () => {
    expect(read((await fresh('100% of #1?mode=memory & ü.db')).database)).to.deep.equal([{ word: 'first' }]);
  });

  it('is unavailable without a file, which it never creates, until there is one', async () => {
    const path = join(await temporaryFolder(), 'words.db');
    const database = connectTo(path);
    expect(() => read(database)).to.throw(DatabaseUnavailable, path);
    expect(existsSync(path)).to.equal(false);
    for (const put of [mkdirSync, () => symlinkSync(path, path)]) {
      put(path);
      expect(() => read(database)).to.throw(DatabaseUnavailable, path);
      rmSync(path, { recursive: true });
    }
    makeFile(path);
    expect(read(database)).to.deep.equal([{ word: 'first' }]);
  });

  it('reads another database that replaced its file and its log, but not before the end of a transaction', async () => {
    const { path, database } = await fresh();
    read(database);
    database.transaction(() => {
      exchange(path);
      expect(read(database)).to.deep.equal([{ word: 'first' }]);
    });
    expect(read(database)).to.deep.equal([{ word: 'exchanged' }]);
    database.statement('INSERT INTO words VALUES (?)').run('written');
    expect(read(connectTo(path))).to.deep.equal([{ word: 'exchanged' }, { word: 'written' }]);
  });

  it('calls `onReplaced` again at the next use if it throws', async () => {
    const { path } = await fresh();
    const onReplaced = mock.fn();
    const database = connectTo(path, { onReplaced });
    onReplaced.mock.mockImplementationOnce(() => {
      throw new Error('database is locked');
    });
    exchange(path);
    expect(() => read(database)).to.throw('database is locked');
    for (let use = 0; use < 2; use++) expect(read(database)).to.deep.equal([{ word: 'exchanged' }]);
    expect(onReplaced.mock.callCount()).to.equal(2);
  });

  for (const [what, put] of Object.entries({
    garbage: (path: string) => writeFileSync(path, 'garbage '.repeat(1000)),
    'an empty file': (path: string) => writeFileSync(path, ''),
    'another database': (path: string) => makeFile(path, 'other'),
  }))
    it(`is unavailable while ${what} replaces its file, and has lost nothing when the file is back`, async () => {
      const { path, database } = await fresh();
      database.statement('INSERT INTO words VALUES (?)').run('second');
      renameSync(path, `${path}.away`);
      put(`${path}.other`);
      renameSync(`${path}.other`, path);
      const connections = [database];
      if (what !== 'another database') connections.push(connectTo(path));
      for (const each of connections) expect(() => read(each)).to.throw(DatabaseUnavailable);
      renameSync(`${path}.away`, path);
      for (const each of connections) expect(read(each)).to.deep.equal([{ word: 'first' }, { word: 'second' }]);
    });

  it('does not wait for a lock again while another program holds it, and waits once more after that', async () => {
    const { path, database } = await fresh();
    const write = () => database.transaction(() => {});
    const timeout = () => database.get<{ timeout: number }>('PRAGMA busy_timeout')?.timeout;
    expect(timeout()).to.equal(50);
    connectTo(path).transaction(() => expect(write).to.throw('database is locked'));
    expect(timeout()).to.equal(0);
    write();
    expect(timeout()).to.equal(50);
  });

  it('keeps its locks when another connection of the process is opened', async () => {
    const { path, database } = await fresh();
    database.statement('INSERT INTO words VALUES (?)').run('second');
    connectTo(path).close();
    // A second process. If the first one had lost its locks, this process would remove the write-ahead log when it
    // exits.
    const script = `new (require('node:sqlite').DatabaseSync)(process.argv[1]).prepare('SELECT * FROM words').all()`;
    execFileSync(process.execPath, ['--eval', script, path]);
    expect(existsSync(`${path}-wal`)).to.equal(true);
  });

  it('lets the write-ahead log grow where another thread restarts it, and syncs checkpoints', async () => {
    const { path } = await fresh();
    const database = connectTo(path, { checkpointPages: 0 });
    expect(database.get('PRAGMA synchronous'), 'NORMAL').to.deep.equal({ synchronous: 1 });
    for (let page = 0; page < 1200; page++) database.statement('INSERT INTO words VALUES (?)').run('x'.repeat(4000));
    expect(statSync(`${path}-wal`).size).to.be.above(1200 * 4096);
  });
});

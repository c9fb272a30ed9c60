import { existsSync, mkdirSync, readdirSync, readFileSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { open, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { mock } from 'node:test';
import { expect } from 'chai';
import { backUpDatabases } from '../../../db/sqlite/backup.ts';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { errorOf } from '../../store/stage.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { migratedFolder, openBeside, runOn } from '../../support/migrated-folder.ts';
import { describeWithSmallDisk, mountSmallDisk } from '../../support/small-disk.ts';
import { until } from '../../support/until.ts';

const NEVER = new AbortController().signal;
const INSERT = "INSERT INTO tasks (id, payload, created_at) VALUES (hex(randomblob(16)), printf('%4000d', 0), 1)";

/** Creates a data folder whose tasks take many steps to copy, and the path of a folder that does not exist. */
async function fresh({ rows = 3000 } = {}) {
  const dataDir = await migratedFolder();
  const tasks = openBeside(dataDir);
  tasks.exec('BEGIN');
  for (let row = 0; row < rows; row++) tasks.exec(INSERT);
  tasks.exec('COMMIT');
  return { dataDir, tasks, folder: join(await temporaryFolder(), 'deep', 'copy') };
}

const read = (dataDir: string, sql: string, file?: string) => Object.values(runOn(dataDir, sql, file)[0] ?? {})[0];

async function refusal(dataDir: string, folder: string): Promise<string> {
  const { message } = await errorOf(() => backUpDatabases(dataDir, folder, NEVER));
  expect(message).to.not.match(/\n/);
  return message;
}

describe('backUpDatabases', () => {
  it('copies all databases into a new folder that no other user can read, and syncs each copy and then their names', async () => {
    const { dataDir, folder } = await fresh({ rows: 7 });
    await using handle = await open(dataDir);
    const synced: string[] = [];
    mock.method(Object.getPrototypeOf(handle), 'sync', async () => synced.push(readdirSync(folder).sort().join(' ')));
    const files = await backUpDatabases(dataDir, folder, NEVER);
    expect(synced).to.deep.equal(['tasks.db.partial', 'auth.db.partial tasks.db.partial', 'auth.db tasks.db']);
    expect(statSync(folder).mode & 0o777).to.equal(0o700);
    for (const { file, bytes } of files) {
      const { mode, size } = statSync(join(folder, file));
      expect([mode & 0o777, size], file).to.deep.equal([0o600, bytes]);
    }
    expect(read(folder, 'SELECT count(*) FROM tasks')).to.equal(7);
    expect(migrate(folder)).to.deep.equal([]);
  });

  it('takes a folder that is there and empty, and the queue of an older version that was not started since', async () => {
    const { dataDir } = await fresh({ rows: 1 });
    new DatabaseSync(join(dataDir, 'queue.db')).close();
    const files = await backUpDatabases(dataDir, await temporaryFolder(), NEVER);
    expect(files.map(({ file }) => file)).to.deep.equal(['queue.db', 'tasks.db', 'auth.db']);
  });

  it('copies what was there when it began, however much is written meanwhile', async () => {
    const { dataDir, tasks, folder } = await fresh();
    const copying = backUpDatabases(dataDir, folder, NEVER);
    tasks.exec(INSERT);
    await until(() => existsSync(join(folder, 'tasks.db.partial')));
    tasks.exec(INSERT);
    // In the database that is copied last.
    runOn(dataDir, "INSERT INTO api_keys VALUES (7, 'key', 'alice', 'user', 1)", 'auth.db');
    await copying;
    expect(runOn(folder, 'SELECT 1 FROM api_keys WHERE id = 7', 'auth.db')).to.deep.equal([]);
    const count = 'SELECT count(*) FROM tasks';
    expect([read(folder, count), read(dataDir, count)]).to.deep.equal([3000, 3002]);
    expect(read(folder, 'PRAGMA integrity_check')).to.equal('ok');
  });

  it('refuses what is not a folder, is not empty, is the data folder or cannot be made, and leaves it alone', async () => {
    const { dataDir, folder } = await fresh({ rows: 1 });
    await backUpDatabases(dataDir, folder, NEVER);
    const [file, link] = [join(folder, 'auth.db'), join(await temporaryFolder(), 'link')];
    symlinkSync(dataDir, link);
    for (const [path, reason] of [
      [folder, 'is not empty: name a new folder'],
      [dirname(link), 'is not empty: name a new folder'],
      [file, 'is not a folder: name another one'],
      [link, 'is the data folder itself: name another one'],
    ] as const)
      expect(await refusal(dataDir, path)).to.equal(`${path} ${reason}`);
    expect(await refusal(dataDir, join(file, 'copy'))).to.include('auth.db');
    expect(readdirSync(folder)).to.have.length(2);
  });

  for (const missing of ['auth.db', 'tasks.db'])
    it(`says that there is no ${missing}, and makes nothing`, async () => {
      const { dataDir, folder } = await fresh({ rows: 1 });
      await rm(join(dataDir, missing));
      expect(await refusal(dataDir, folder)).to.match(/does not exist: set DATA_DIR to the folder of the databases$/);
      for (const path of [folder, join(dataDir, missing)]) expect(existsSync(path), path).to.equal(false);
    });

  it('leaves nothing of a database that is none, or is damaged', async () => {
    const { dataDir, folder, tasks } = await fresh();
    tasks.exec('PRAGMA wal_checkpoint(TRUNCATE)');
    const file = join(dataDir, 'tasks.db');
    // Each page of the file stays readable, but the tree of pages becomes inconsistent.
    writeFileSync(file, readFileSync(file).fill('x', 4096 * 30, 4096 * 31));
    expect(await refusal(dataDir, folder)).to.match(/^cannot copy tasks\.db: it is damaged: /);
    expect(existsSync(folder)).to.equal(false);
    writeFileSync(join(dataDir, 'auth.db'), 'garbage '.repeat(1000));
    expect(await refusal(dataDir, folder)).to.equal(`${join(dataDir, 'auth.db')}: file is not a database`);
    expect(existsSync(folder)).to.equal(false);
  });

  it('leaves no database that looks finished if the last file cannot be renamed', async () => {
    const { dataDir, folder } = await fresh();
    const reason = refusal(dataDir, folder);
    await until(() => existsSync(join(folder, 'tasks.db.partial')));
    mkdirSync(join(folder, 'auth.db'));
    expect(await reason).to.match(/^EISDIR/);
    expect(readdirSync(folder)).to.deep.equal(['auth.db']);
  });
});

describeWithSmallDisk('a backup onto a full disk', () => {
  it('leaves nothing there', async () => {
    const disk = await mountSmallDisk(2);
    const { dataDir } = await fresh();
    expect(await refusal(dataDir, join(disk.path, 'copy'))).to.equal('cannot copy tasks.db: database or disk is full');
    expect(readdirSync(disk.path)).to.deep.equal([]);
  });
});

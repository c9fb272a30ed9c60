import { readdirSync, readlinkSync, renameSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { expect } from 'chai';
import { WalSync } from '../../../db/sqlite/wal-sync.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';

async function start() {
  const path = join(await temporaryFolder(), 'a.db');
  const database = new DatabaseSync(path);
  afterTest(() => database.close());
  database.exec('PRAGMA journal_mode = WAL; CREATE TABLE t (x)');
  return { path, wal: new WalSync(path) };
}

/** Number of descriptors that this process has open for a file. */
function timesOpen(path: string): number {
  const folder = '/proc/self/fd';
  const targets = readdirSync(folder).map((descriptor) => {
    try {
      return readlinkSync(join(folder, descriptor));
    } catch {
      // The descriptor used to list the folder is closed by now.
      return undefined;
    }
  });
  return targets.filter((target) => target === path).length;
}

describe('WalSync', () => {
  it('waits for the disk, alone or many at once, again and again', async () => {
    const { path, wal } = await start();
    const before = timesOpen(`${path}-wal`);
    expect(before).to.equal(1);
    await wal.sync();
    await Promise.all([wal.sync(), wal.sync(), wal.sync()]);
    await wal.sync();
    expect(timesOpen(`${path}-wal`)).to.equal(before);
  });

  it('shares the next sync among calls made during a sync, never the one in progress', async () => {
    const { wal } = await start();
    const first = wal.sync();
    // Lets the sync start.
    await new Promise(setImmediate);
    const second = wal.sync();
    expect(wal.sync()).to.equal(second).and.not.equal(first);
    const order: string[] = [];
    await Promise.all([first.then(() => order.push('first')), second.then(() => order.push('second'))]);
    expect(order).to.deep.equal(['first', 'second']);
  });

  it('has nothing to do where there is no such file', async () => {
    const { path, wal } = await start();
    renameSync(`${path}-wal`, `${path}-away`);
    await wal.sync();
  });

  it('rejects with the reason of a failed sync, and tries again the next time', async () => {
    const folder = join(await temporaryFolder(), 'folder');
    writeFileSync(folder, 'in its place');
    const wal = new WalSync(join(folder, 'a.db'));
    const failures = await Promise.all([wal.sync(), wal.sync()].map((sync) => sync.catch(({ code }) => code)));
    expect(failures).to.deep.equal(['ENOTDIR', 'ENOTDIR']);
    rmSync(folder);
    await wal.sync();
  });
});

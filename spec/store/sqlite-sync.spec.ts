import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { Database, IN_MEMORY } from '../../db/sqlite/database.ts';
import type { SqliteStore } from '../../db/sqlite/store.ts';
import { TurnWriter } from '../../db/sqlite/turn-writer.ts';
import { WalSync } from '../../db/sqlite/wal-sync.ts';
import { migratedFolder, openBeside } from '../support/migrated-folder.ts';
import { openFiles } from '../support/proc.ts';
import { until } from '../support/until.ts';
import { schedule } from './schedules.ts';
import { complete, discard, release, retry } from './settlements.ts';
import { sqliteDriver } from './sqlite-driver.ts';
import { errorOf, HOUR, messageOf, START, TestQueue } from './stage.ts';
import { purgeIn, redriveIn } from './store-calls.ts';

/** Opens a queue in a file, whose syncs are `disk.sync`. */
async function start(driver: 'memory' | 'sqlite' = 'sqlite') {
  const folder = await migratedFolder();
  const queue = new TestQueue(sqliteDriver(driver, folder));
  await queue.open();
  const disk = { sync: async () => {} };
  const { mock: syncs } = mock.method(WalSync.prototype, 'sync', () => disk.sync());
  return { queue, folder, disk, syncs };
}

describe('what a client is told', () => {
  it('is committed and then synced before the answer: submission, cancellation, run-now, pause, limits, schedule, redrive and purge', async () => {
    const { queue, folder, disk, syncs } = await start();
    const { store } = queue;
    await queue.discard('xy');
    await queue.publishKeyed('a', 'key');
    await queue.publish('b');
    await queue.next();
    await store.publish({ ...messageOf('later'), runAt: START + HOUR });
    const other = openBeside(folder);
    const version = () => (other.prepare('PRAGMA data_version').get() as { data_version: number }).data_version;
    const calls: (() => Promise<unknown>)[] = [
      () => store.publish(messageOf('c')),
      () => store.cancel('a'),
      () => store.cancel('b'),
      () => store.runNow('later'),
      () => store.setPaused(true),
      () => store.setLimits('sum', { concurrency: 5 }, 'api'),
      () => store.schedules.put(schedule('s')),
      () => redriveIn(store, { ids: ['x'] }),
      () => purgeIn(store, { all: true }),
    ];
    // These write nothing, but the submission or cancellation before may not be on disk yet.
    const repeated = [() => queue.publishKeyed('d', 'key'), () => store.cancel('b')];
    for (const call of [...calls, ...repeated]) {
      const gate = Promise.withResolvers<void>();
      disk.sync = () => gate.promise;
      const before = { syncs: syncs.callCount(), version: version() };
      let isAnswered = false;
      const answer = call().then(() => {
        isAnswered = true;
      });
      await until(() => syncs.callCount() > before.syncs || isAnswered);
      if (calls.includes(call)) expect(version(), `${call}`).to.be.above(before.version);
      await new Promise(setImmediate);
      expect(isAnswered, `${call}`).to.equal(false);
      gate.resolve();
      await answer;
    }
  });

  it('is reported as requeued before its sync, because it may run at once', async () => {
    const { queue, disk } = await start();
    await queue.discard('x');
    const gate = Promise.withResolvers<void>();
    disk.sync = () => gate.promise;
    const requeued: string[] = [];
    const answer = redriveIn(queue.store, { all: true }, (tasks) => requeued.push(...tasks.map(({ id }) => id)));
    await until(() => requeued.length > 0);
    expect(await queue.takeIds(1)).to.equal('x');
    gate.resolve();
    await answer;
    expect(requeued).to.deep.equal(['x']);
  });

  it('fails while the disk cannot sync it, until a check finds that it can, without another submission', async () => {
    const { queue, disk } = await start();
    const { store } = queue;
    await queue.discard('xy');
    const message = 'EIO: i/o error, fdatasync';
    disk.sync = () => Promise.reject(new Error(message));
    for (const call of [
      () => store.publish(messageOf('a')),
      () => redriveIn(store, { ids: ['x'] }),
      () => purgeIn(store, { ids: ['y'] }),
      () => store.setPaused(false),
      () => store.cancel('x'),
    ])
      expect((await errorOf(call)).message, `${call}`).to.equal(message);
    // The retry that each check begins fails, without an unhandled rejection.
    for (let check = 0; check < 2; check++) {
      expect(store.problem()).to.equal(message);
      await new Promise(setImmediate);
    }
    disk.sync = async () => {};
    await until(() => store.problem() === undefined);
    await queue.publish('b');
  });

  it('is answered at the end of a hold of writes before anything else continues', async () => {
    const database = new Database(IN_MEMORY, { busyTimeoutMs: 0 });
    const writer = new TurnWriter({ queue: database, file: database, counters: {} });
    const order: string[] = [];
    writer.hold();
    const continued = writer.held?.then(() => order.push('continued'));
    const written = writer.write(() => {}).then(() => order.push('written'));
    writer.resume();
    await Promise.all([continued, written]);
    database.close();
    expect(order).to.deep.equal(['written', 'continued']);
  });
});

describe('what no client waits for', () => {
  it('is not synced: takes and settlements', async () => {
    const { queue, syncs } = await start();
    await queue.publish('abcd');
    const before = syncs.callCount();
    for (const settlement of [complete(), retry(queue.now + 1), release, discard()])
      expect(await queue.settle(await queue.next(), settlement)).to.equal('applied');
    await new Promise(setImmediate);
    expect(syncs.callCount()).to.equal(before);
  });

  it('waits while writes are held: takes, settlements and reports', async () => {
    const { queue } = await start();
    const store = queue.store as SqliteStore;
    await queue.publish('ab');
    const delivery = await queue.next();
    store.holdWrites();
    const writes = [
      () => store.settle([{ delivery, settlement: complete() }]),
      () => store.take(1, false),
      () => store.takeCallbacks(1),
      () => store.report([{ delivery, startedAt: queue.now, progress: undefined }]),
    ].map((write) => write());
    for (const write of writes) expect(write).to.be.instanceOf(Promise);
    expect(await queue.stateOf('a')).to.equal('running');
    store.resumeWrites();
    await Promise.all(writes);
    expect([await queue.stateOf('a'), await queue.stateOf('b')]).to.deep.equal(['completed', 'running']);
  });

  it('is everything in the driver memory', async () => {
    const { queue, disk } = await start('memory');
    disk.sync = () => new Promise(() => {});
    await queue.discard('x');
    await queue.publish('ab');
    await queue.store.setPaused(true);
    await queue.redrive({ all: true });
    expect(await queue.cancel('a')).to.equal('cancelled');
  });
});

describe('a sync of the log', () => {
  it('that has begun covers no later commit: calls made meanwhile share the next one', async () => {
    const wal = new WalSync('a.db', () => new Promise(() => {}));
    const first = wal.sync();
    await new Promise(setImmediate);
    const second = wal.sync();
    expect(wal.sync()).to.equal(second).and.not.equal(first);
  });

  it('has nothing to do without a log, and leaves no descriptor open', async () => {
    const folder = await migratedFolder();
    const path = join(folder, 'tasks.db');
    openBeside(folder).exec('DELETE FROM tasks');
    const timesOpen = () => openFiles(process.pid).filter((file) => file === `${path}-wal`).length;
    const wal = new WalSync(path);
    for (let time = 0; time < 2; time++) await Promise.all([wal.sync(), wal.sync(), wal.sync()]);
    expect(timesOpen()).to.equal(1);
    await new WalSync(join(folder, 'none.db')).sync();
  });

  it('rejects with the reason of its failure, and is tried again the next time', async () => {
    const file = join(await migratedFolder(), 'auth.db');
    const wal = new WalSync(join(file, 'a.db'));
    const failures = await Promise.all([wal.sync(), wal.sync()].map((sync) => sync.catch(({ code }) => code)));
    expect(failures).to.deep.equal(['ENOTDIR', 'ENOTDIR']);
    rmSync(file);
    await wal.sync();
  });
});

import { renameSync, rmSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { join } from 'node:path';
import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { Database, IN_MEMORY } from '../../../db/sqlite/database.ts';
import type { SqliteStore } from '../../../db/sqlite/store.ts';
import { TurnWriter } from '../../../db/sqlite/turn-writer.ts';
import { WalSync } from '../../../db/sqlite/wal-sync.ts';
import { type Delivery, RETENTION_SLICE } from '../../../db/task-store.ts';
import { expectEverything, leaveEverything } from '../../store/delivering.ts';
import { runPass } from '../../store/retention.ts';
import { schedule } from '../../store/schedules.ts';
import { ack, complete, discard, release, retry } from '../../store/settlements.ts';
import { openIn, sqliteDriver } from '../../store/sqlite-driver.ts';
import { errorOf, HOUR, idsOf, messageOf, numbers, roomy, START, sorted, TestQueue } from '../../store/stage.ts';
import { listIn, purgeIn, redriveIn } from '../../store/store-calls.ts';
import { afterTest } from '../../support/cleanup.ts';
import { migratedFolder, openBeside } from '../../support/migrated-folder.ts';
import { openFiles } from '../../support/proc.ts';
import { until } from '../../support/until.ts';

const LOCKED = 'database is locked';
const messageOfError = async (call: () => unknown) => (await errorOf(call)).message;

/** Opens a queue in a new data folder, whose stores after the first one have the driver `next`. */
async function start(driver: 'memory' | 'sqlite' = 'sqlite', next = driver) {
  const folder = await migratedFolder();
  const { open: reopen } = sqliteDriver(next, folder);
  const own = sqliteDriver(driver, folder);
  const queue = await new TestQueue({ ...own, reopen: (_, options) => reopen(options) }).open();
  return { queue, store: queue.store as SqliteStore, folder, driver: own };
}

/** Like {@link start}, but the syncs of the file are `disk.sync`. */
async function startOn(disk: { sync(): Promise<void> }, driver?: 'memory') {
  const { mock: syncs } = mock.method(WalSync.prototype, 'sync', () => disk.sync());
  return { ...(await start(driver)), syncs };
}

/** Opens a queue with the dead letter x, the deliveries a to d and the waiting message e. Its file is locked. */
async function locked(driver: 'memory' | 'sqlite') {
  const { queue, store, folder } = await start(driver);
  await queue.discard('x');
  await queue.publish('abcde');
  const [a, b, c, d] = await queue.takeAll(4);
  const settled = [
    { delivery: a, settlement: complete() },
    { delivery: b, settlement: retry(START + HOUR) },
    { delivery: c, settlement: discard() },
    { delivery: d, settlement: release },
  ];
  const other = openBeside(folder);
  other.exec('BEGIN IMMEDIATE');
  return { queue, store, settled, unlock: () => other.exec('COMMIT') };
}

describe('SqliteStore', () => {
  for (const [before, after] of [
    ['memory', 'sqlite'],
    ['sqlite', 'memory'],
  ] as const)
    it(`a data folder keeps everything if the driver changes between two starts: ${before}, then ${after}`, async () => {
      const { queue } = await start(before, after);
      const left = await leaveEverything(queue);
      await queue.restart();
      await expectEverything(queue, left);
    });

  it('a data folder keeps the queue of a process that was killed, for a start with the driver memory', async () => {
    const { queue } = await start('sqlite', 'memory');
    await queue.publish('abc');
    const former = await queue.next();
    await queue.die();
    expect(await queue.settle(former, complete())).to.equal('late');
    const [a, ...others] = await queue.takeAll(3);
    expect(a).to.include({ id: 'a', attempt: 1, crashes: 0, isSuspect: false, delivery: 2 });
    expect(idsOf(others)).to.equal('bc');
  });

  it('a data folder whose file is deleted is counted as before, has the queue of a file that takes its place, and keeps nothing once that is deleted too', async () => {
    const [{ queue, folder }, other] = [await start(), await start()];
    await queue.running('ab');
    await other.queue.publish('cd');
    await other.store.close();
    for (const suffix of ['', '-wal', '-shm']) rmSync(join(folder, `tasks.db${suffix}`));
    await queue.expectCounts({ accepted: 2, inFlight: 2 });
    renameSync(join(other.folder, 'tasks.db'), join(folder, 'tasks.db'));
    expect(await queue.takeIds(1)).to.equal('c');
    await queue.expectCounts({ accepted: 2, waiting: 1, inFlight: 1 });
    expect(await queue.store.limitOf('sum')).to.include({ running: 1 });
    rmSync(join(folder, 'tasks.db'));
    expect(await queue.store.close(), 'whether the tasks are kept').to.equal(false);
  });

  it('a queue in memory delivers what was running again after each stop, which syncs it, and counts no death', async () => {
    const { queue } = await start('memory');
    const { mock: statements } = mock.method(Database.prototype, 'exec');
    await queue.publish('a');
    for (let time = 0; time < 3; time += 1) {
      expect(await queue.next()).to.include({ id: 'a', attempt: 1, isSuspect: false });
      await queue.restart();
    }
    expect(statements.calls.map(({ arguments: [sql] }) => sql).join()).to.include('PRAGMA file.synchronous = FULL');
  });

  it('a queue in memory keeps what was saved, and what was accepted since, until it is started', async () => {
    const { queue, folder } = await start('memory');
    await queue.publish('abc');
    await queue.store.setLimits('mail', { concurrency: 1 }, 'api');
    expect(await queue.store.close()).to.equal(true);
    const file = openBeside(folder);
    const inFile = () => idsOf(file.prepare('SELECT id FROM messages ORDER BY arrival').all() as { id: string }[]);
    const store = openIn(folder, 'memory', { bounds: roomy, now: () => START });
    afterTest(() => store.close());
    expect(await store.reads.find('a')).to.have.property('message');
    file.exec('BEGIN IMMEDIATE');
    expect(await messageOfError(() => store.start())).to.equal(LOCKED);
    file.exec('COMMIT');
    await store.publish(messageOf('d'));
    expect([inFile(), await store.close(), inFile()]).to.deep.equal(['abc', true, 'abcd']);
    await queue.die();
    expect([inFile(), file.prepare('SELECT action FROM limits').all()]).to.deep.equal(['', []]);
    expect(await queue.takeIds(5)).to.equal('abcd');
  });

  it('a queue in memory that was killed leaves the rows, and no number that a later row needs', async () => {
    const { queue } = await start('memory');
    for (const ids of ['ab', 'cd']) {
      await queue.settleAll(await queue.running(ids), complete());
      expect(idsOf(await listIn(queue.store.reads.rows))).to.equal(ids === 'ab' ? 'ba' : 'dcba');
      // At the same time, as if the clock had been set back.
      await queue.die();
    }
  });

  it('a queue in a file that is locked refuses what it cannot write, and changes nothing', async () => {
    const { queue, store, settled, unlock } = await locked('sqlite');
    await queue.unchanged(async () => {
      for (const call of [
        () => store.publish(messageOf('f')),
        () => store.cancel('e'),
        () => store.cancel('a'),
        () => store.setPaused(true),
        () => redriveIn(store, { all: true }),
        () => purgeIn(store, { all: true }),
        () => store.take(5, false),
        () => store.settle(settled),
      ])
        expect(await messageOfError(call), `${call}`).to.equal(LOCKED);
    });
    expect([store.isPaused(), store.cancelRequests(['a', 'e'])]).to.deep.equal([false, []]);
    expect(await queue.letterIds()).to.equal('x');
    unlock();
    expect((await store.settle(settled)).effects).to.deep.equal(Array(4).fill('applied'));
    const states = await Promise.all([...'abcd'].map((id) => queue.stateOf(id)));
    expect(states).to.deep.equal(['completed', 'retrying', 'failed', 'waiting']);
    expect(store.problem()).to.equal(undefined);
    expect(await queue.takeIds(5)).to.equal('de');
  });

  it('a queue in a file that is locked takes a retry that was due when a commit failed, reports nothing of it, keeps its limits, and those in memory their tasks', async () => {
    const { queue } = await start();
    const { queue: inMemory } = await start('memory');
    const [b] = await inMemory.running('b');
    await queue.discard('x');
    await queue.settleAll(await queue.running('a'), retry(START + 60));
    queue.now = START + 60;
    const { runUncounted } = Database.prototype;
    const fail = function (this: Database, ...[sql, ...values]: Parameters<typeof runUncounted>) {
      if (sql === 'COMMIT' && this.get<{ file: string }>('PRAGMA database_list')?.file !== '') throw new Error(LOCKED);
      runUncounted.call(this, sql, ...values);
    };
    const { mock: spy } = mock.method(Database.prototype, 'runUncounted', fail);
    const { store } = queue;
    const report = mock.fn();
    for (const call of [
      () => store.take(5, false),
      () => store.setLimits('sum', { concurrency: 1 }, 'api', report),
      () => store.publish(messageOf('f'), undefined, report),
      () => store.runNow('a', report),
      () => redriveIn(store, { all: true }, report),
    ])
      expect([await messageOfError(call), report.mock.callCount()], `${call}`).to.deep.equal([LOCKED, 0]);
    await inMemory.unchanged(() => errorOf(() => inMemory.settle(b, complete())));
    spy.restore();
    expect([store.limits(), await queue.takeIds(5)]).to.deep.equal([[], 'a']);
    expect(await inMemory.settle(b, complete())).to.equal('applied');
  });

  it('a queue in a file that is locked refuses only what needs the file, settlements as a whole, with the driver memory', async () => {
    const { queue, store, settled, unlock } = await locked('memory');
    const [submitted, reversed] = [store.publish(messageOf('f')), settled.toReversed()];
    await queue.unchanged(async () => expect(await messageOfError(() => store.settle(reversed))).to.equal(LOCKED));
    expect(await submitted).to.deep.equal({ id: 'f', isNew: true });
    expect(await queue.cancel('f')).to.equal('cancelled');
    for (const isPaused of [true, false]) await store.setPaused(isPaused);
    expect(store.problem()).to.equal(LOCKED);
    for (const { delivery, settlement } of settled.slice(1))
      expect(await queue.settle(delivery, settlement)).to.equal('applied');
    expect(await queue.redrive({ ids: ['x'] })).to.deep.equal(['x', 0]);
    expect(sorted(await queue.takeIds(9))).to.equal('dex');
    expect(await queue.settle(settled[0]?.delivery as Delivery, ack)).to.equal('applied');
    unlock();
    store.holdWrites();
    expect(store.problem(), 'not written to while writes are held').to.equal(LOCKED);
    store.resumeWrites();
    expect(store.problem()).to.equal(undefined);
  });

  it('the submissions of one event loop turn are one transaction, and none is read before its commit', async () => {
    const { queue, folder } = await start();
    const { mock: spy } = mock.method(Database.prototype, 'transaction');
    const submitted = queue.publishTogether([...'abcdefgh']);
    await queue.expectCounts({ accepted: 0, waiting: 0 });
    expect(await queue.store.reads.find('a')).to.equal(undefined);
    await submitted;
    expect(spy.callCount()).to.equal(1);
    const others = openBeside(folder).prepare('SELECT id FROM messages ORDER BY arrival').all();
    expect(others.map(({ id }) => id).join('')).to.equal('abcdefgh');
  });

  it('what a client is told is committed and synced before the answer, and told to the queue before the sync', async () => {
    const disk = { sync: async () => {} };
    const { queue, store, folder, syncs } = await startOn(disk);
    await queue.discard('xy');
    await queue.publishKeyed('a', 'key');
    await queue.running('b');
    await store.publish({ ...messageOf('later'), runAt: START + HOUR });
    const other = openBeside(folder);
    const version = () => (other.prepare('PRAGMA data_version').get() as { data_version: number }).data_version;
    const calls: ((report: () => void) => Promise<unknown>)[] = [
      (report) => store.publish(messageOf('c'), undefined, report),
      () => store.cancel('a'),
      () => store.cancel('b'),
      (report) => store.runNow('later', report),
      () => store.setPaused(true),
      (report) => store.setLimits('sum', { concurrency: 5 }, 'api', report),
      () => store.schedules.put(schedule('s')),
      (report) => redriveIn(store, { ids: ['x'] }, report),
      () => purgeIn(store, { all: true }),
    ];
    // These write nothing, but the submission or cancellation before may not be on disk yet.
    const repeated = [() => queue.publishKeyed('d', 'key'), () => store.cancel('a'), () => store.cancel('b')];
    for (const call of [...calls, ...repeated]) {
      const gate = Promise.withResolvers<void>();
      disk.sync = () => gate.promise;
      const before = { syncs: syncs.callCount(), version: version() };
      const reports = [call.length === 0];
      const answer = call(() => reports.push(true)).then(() => 'answered');
      await Promise.race([until(() => reports.includes(true) && syncs.callCount() > before.syncs), answer]);
      if (calls.includes(call)) expect(version(), `${call}`).to.be.above(before.version);
      expect(await Promise.race([answer, setImmediate('not synced')]), `${call}`).to.equal('not synced');
      gate.resolve();
      await answer;
    }
  });

  it('what a client is told fails while the disk cannot sync it, until a check finds that it can, without another submission', async () => {
    const disk = { sync: async () => {} };
    const { queue, store } = await startOn(disk);
    await queue.discard('xy');
    const message = 'EIO: i/o error, fdatasync';
    disk.sync = () => Promise.reject(new Error(message));
    for (const call of [
      () => store.publish(messageOf('a')),
      () => store.publish(messageOf('refused')),
      () => redriveIn(store, { ids: ['x'] }),
      () => purgeIn(store, { ids: ['y'] }),
      () => store.setPaused(false),
      () => store.cancel('x'),
    ])
      expect(await messageOfError(call), `${call}`).to.equal(message);
    expect(await queue.stateOf('refused')).to.equal(undefined);
    // The retry that each check begins fails, without an unhandled rejection.
    for (let check = 0; check < 2; check++) {
      expect(store.problem()).to.equal(message);
      await setImmediate();
    }
    disk.sync = async () => {};
    await until(() => store.problem() === undefined);
    await queue.publish('b');
  });

  it('what a client is told is answered at the end of a hold of writes before anything else continues', async () => {
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

  it('takes and settlements are not synced, because no client waits for them', async () => {
    const { queue, syncs } = await startOn({ sync: async () => {} });
    await queue.publish('abcd');
    const before = syncs.callCount();
    for (const settlement of [complete(), retry(queue.now + 1), release, discard()])
      expect(await queue.settle(await queue.next(), settlement)).to.equal('applied');
    await setImmediate();
    expect(syncs.callCount()).to.equal(before);
  });

  it('nothing is written while writes are held, and takes, settlements and reports wait', async () => {
    const { queue, store } = await start();
    const [delivery] = await queue.running('a');
    await queue.publish('b');
    store.holdWrites();
    const { mock: transactions } = mock.method(Database.prototype, 'transaction');
    const writes = [
      store.settle([{ delivery, settlement: complete() }]),
      store.take(1, false),
      store.takeCallbacks(1),
      store.report([{ delivery, startedAt: queue.now, progress: undefined }]),
      store.setLimits('mail', { concurrency: 1 }, 'api'),
      store.saveHistory(1, '{}'),
      store.deleteOldRows({ before: 0, rows: undefined }),
      store.publish(messageOf('c')),
    ];
    for (const write of writes) expect(write).to.be.instanceOf(Promise);
    store.holdWrites();
    await setImmediate();
    expect(transactions.callCount()).to.equal(0);
    expect(await queue.stateOf('a')).to.equal('running');
    store.resumeWrites();
    store.holdWrites();
    await setImmediate();
    expect(transactions.callCount()).to.equal(1);
    store.resumeWrites();
    await Promise.all(writes);
    expect([await queue.stateOf('a'), await queue.stateOf('b')]).to.deep.equal(['completed', 'running']);
  });

  it('a store that is closed while writes are held writes and answers what waits', async () => {
    const { queue, store } = await start();
    store.holdWrites();
    const submitted = queue.publish('a');
    const takes = [store.take(1, false), store.takeCallbacks(1)];
    expect(await store.close()).to.equal(true);
    await submitted;
    for (const { deliveries } of await Promise.all(takes)) expect(deliveries).to.deep.equal([]);
    await queue.die();
    expect(await queue.takeIds(1)).to.equal('a');
  });

  it('nothing waits for a sync with the driver memory', async () => {
    const { queue } = await startOn({ sync: () => new Promise(() => {}) }, 'memory');
    await queue.discard('x');
    await queue.publish('ab');
    await queue.store.setPaused(true);
    await queue.redrive({ all: true });
    expect(await queue.cancel('a')).to.equal('cancelled');
  });

  it('a sync of the log that has begun covers no later commit: calls made meanwhile share the next one', async () => {
    const wal = new WalSync('a.db', () => new Promise(() => {}));
    const first = wal.sync();
    await setImmediate();
    const second = wal.sync();
    expect(wal.sync()).to.equal(second).and.not.equal(first);
  });

  it('a sync of the log syncs its data, has nothing to do without a log, and leaves no descriptor open', async () => {
    const folder = await migratedFolder();
    const path = join(folder, 'tasks.db');
    await using handle = await open(path);
    const { mock: syncs } = mock.method(Object.getPrototypeOf(handle), 'datasync');
    openBeside(folder).exec('DELETE FROM tasks');
    const wal = new WalSync(path);
    for (let time = 0; time < 2; time++) await Promise.all([wal.sync(), wal.sync(), wal.sync()]);
    expect(openFiles(process.pid).filter((file) => file === `${path}-wal`)).to.have.length(1);
    await new WalSync(join(folder, 'none.db')).sync();
    expect(syncs.callCount()).to.equal(2);
  });

  it('a sync of the log rejects with the reason of its failure, and is tried again the next time', async () => {
    const file = join(await migratedFolder(), 'auth.db');
    const wal = new WalSync(join(file, 'a.db'));
    const failures = await Promise.all([wal.sync(), wal.sync()].map((sync) => sync.catch(({ code }) => code)));
    expect(failures).to.deep.equal(['ENOTDIR', 'ENOTDIR']);
    rmSync(file);
    await wal.sync();
  });

  it('a step of the retention looks at a bounded number of rows, also if it keeps all of them', async () => {
    const { queue, driver } = await start();
    const kept = numbers(2 * RETENTION_SLICE.maxLength).map((id) => ({ id, createdAt: 0, processedAt: 9 }));
    await driver.insertRows(queue.store, [...kept, { id: '1000', createdAt: 0 }]);
    expect(await runPass(queue, { before: 9 })).to.deep.equal([0, 0, 1]);
  });
});

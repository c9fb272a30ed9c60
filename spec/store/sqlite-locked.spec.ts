import { join } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { Database } from '../../db/sqlite/database.ts';
import type { Delivery } from '../../db/task-store.ts';
import { migratedFolder, openBeside } from '../support/migrated-folder.ts';
import { ack, complete, discard, release, retry } from './settlements.ts';
import { sqliteDriver } from './sqlite-driver.ts';
import { errorOf, HOUR, messageOf, START, sorted, TestQueue } from './stage.ts';
import { purgeIn, redriveIn } from './store-calls.ts';

const LOCKED = 'database is locked';
const errorText = async (call: () => unknown) => (await errorOf(call)).message;

/** Opens a queue with the dead letter x, the deliveries a to d and the waiting message e. Its file is locked. */
async function locked(driver: 'memory' | 'sqlite') {
  const folder = await migratedFolder();
  const queue = new TestQueue(sqliteDriver(driver, folder));
  await queue.open();
  await queue.discard('x');
  await queue.publish('abcde');
  const deliveries = await queue.takeAll(4);
  const other = openBeside(folder);
  other.exec('BEGIN IMMEDIATE');
  const path = join(folder, 'tasks.db');
  return { queue, store: queue.store, deliveries, path, unlock: () => other.exec('COMMIT') };
}

const allSettled = ([a, b, c, d]: Awaited<ReturnType<typeof locked>>['deliveries']) => [
  { delivery: a, settlement: complete() },
  { delivery: b, settlement: retry(START + HOUR) },
  { delivery: c, settlement: discard() },
  { delivery: d, settlement: release },
];

describe('the driver sqlite, while its file is locked', () => {
  it('refuses what it cannot write, and changes nothing', async () => {
    const { queue, store, deliveries, unlock } = await locked('sqlite');
    const calls: (() => unknown)[] = [
      () => store.publish(messageOf('f')),
      () => store.cancel('e'),
      () => store.cancel('a'),
      () => store.setPaused(true),
      () => redriveIn(store, { all: true }),
      () => purgeIn(store, { all: true }),
      () => store.take(5, false),
      () => store.settle(allSettled(deliveries)),
    ];
    await queue.unchanged(async () => {
      for (const call of calls) expect(await errorText(call), `${call}`).to.equal(LOCKED);
    });
    expect(await store.isPaused()).to.equal(false);
    expect(await store.cancelRequests(['a', 'e'])).to.deep.equal([]);
    expect(await queue.letterIds()).to.equal('x');
    unlock();
    const { effects } = await store.settle(allSettled(deliveries));
    expect(effects).to.deep.equal(Array(4).fill('applied'));
    const states = await Promise.all([...'abcd'].map((id) => queue.stateOf(id)));
    expect(states).to.deep.equal(['completed', 'retrying', 'failed', 'waiting']);
    expect(store.problem()).to.equal(undefined);
    expect(await queue.takeIds(5)).to.equal('de');
  });

  it('takes a retry that was due when a commit failed', async () => {
    const { queue, deliveries, unlock } = await locked('sqlite');
    unlock();
    await queue.settle(deliveries[1] as Delivery, retry(START + 60));
    queue.now = START + 60;
    const { runUncounted } = Database.prototype;
    const fail = function (this: Database, ...[sql, ...values]: Parameters<typeof runUncounted>) {
      if (sql === 'COMMIT') throw new Error(LOCKED);
      runUncounted.call(this, sql, ...values);
    };
    const { mock: spy } = mock.method(Database.prototype, 'runUncounted', fail);
    expect(await errorText(() => queue.store.take(5, false))).to.equal(LOCKED);
    spy.restore();
    expect(sorted(await queue.takeIds(5))).to.equal('be');
  });

  it('waits for the lock once, then not again until the lock is released', async () => {
    const { queue, unlock } = await locked('sqlite');
    const durations: number[] = [];
    for (let call = 0; call < 40; call++) {
      const begun = performance.now();
      await errorOf(() => queue.store.publish(messageOf('f')));
      durations.push(performance.now() - begun);
    }
    // A wait takes 50 ms.
    expect(Math.min(...durations)).to.be.below(40);
    unlock();
    await queue.publish('g');
  });
});

describe('the driver memory, while its file is locked', () => {
  it('refuses only what needs the file, settlements as a whole', async () => {
    const { queue, store, deliveries, unlock } = await locked('memory');
    const submitted = store.publish(messageOf('f'));
    const settled = allSettled(deliveries).toReversed();
    await queue.unchanged(async () => expect(await errorText(() => store.settle(settled))).to.equal(LOCKED));
    expect(await submitted).to.deep.equal({ id: 'f', isNew: true });
    expect(await queue.cancel('f')).to.equal('cancelled');
    for (const isPaused of [true, false]) await store.setPaused(isPaused);
    expect(store.problem()).to.equal(LOCKED);
    const [a, ...others] = settled.toReversed();
    for (const { delivery, settlement } of others) expect(await queue.settle(delivery, settlement)).to.equal('applied');
    expect(await queue.redrive({ ids: ['x'] })).to.deep.equal(['x', 0]);
    expect(sorted(await queue.takeIds(9))).to.equal('dex');
    if (a) expect(await queue.settle(a.delivery, ack)).to.equal('applied');
    unlock();
    expect(store.problem()).to.equal(undefined);
  });
});

describe('the submissions of one event loop turn', () => {
  it('are one transaction, and none is read before its commit', async () => {
    const folder = await migratedFolder();
    const queue = new TestQueue(sqliteDriver('sqlite', folder));
    await queue.open();
    const { mock: spy } = mock.method(Database.prototype, 'transaction');
    const submitted = queue.publishTogether([...'abcdefgh']);
    await queue.expectCounts({ accepted: 0, waiting: 0 });
    expect(await queue.store.reads.find('a')).to.equal(undefined);
    await submitted;
    expect(spy.callCount()).to.equal(1);
    const others = openBeside(folder).prepare('SELECT id FROM messages ORDER BY arrival').all();
    expect(others.map(({ id }) => id).join('')).to.equal('abcdefgh');
  });
});

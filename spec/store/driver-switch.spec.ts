import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { migratedFolder, openBeside } from '../support/migrated-folder.ts';
import { expectEverything, leaveEverything } from './delivering.ts';
import { complete } from './settlements.ts';
import { openIn, sqliteDriver } from './sqlite-driver.ts';
import { errorOf, idsOf, messageOf, roomy, START, TestQueue } from './stage.ts';
import { listIn } from './store-calls.ts';

/** Opens the queue of a data folder as a new process would. */
async function start(folder: string, driver: 'memory' | 'sqlite', now = START): Promise<TestQueue> {
  const queue = new TestQueue(sqliteDriver(driver, folder));
  queue.now = now;
  await queue.open();
  return queue;
}

describe('a data folder', () => {
  for (const [before, after] of [
    ['memory', 'sqlite'],
    ['sqlite', 'memory'],
  ] as const) {
    it(`keeps everything if the driver changes between two starts: ${before}, then ${after}`, async () => {
      const folder = await migratedFolder();
      const first = await start(folder, before);
      const left = await leaveEverything(first);
      expect(await first.store.close()).to.equal(true);
      await expectEverything(await start(folder, after, first.now), left);
    });
  }

  it('keeps the queue of a process that was killed, for a start with the driver memory', async () => {
    const folder = await migratedFolder();
    const first = await start(folder, 'sqlite');
    await first.publish('abc');
    const former = await first.next();
    const second = await start(folder, 'memory');
    expect(await second.settle(former, complete())).to.equal('late');
    const [a, ...others] = await second.takeAll(3);
    expect(a).to.include({ id: 'a', attempt: 1, crashes: 0, isSuspect: false, delivery: 2 });
    expect(idsOf(others)).to.equal('bc');
  });
});

describe('a queue in memory', () => {
  it('delivers what was running again after each stop, and counts no death', async () => {
    const queue = await start(await migratedFolder(), 'memory');
    await queue.publish('a');
    for (let time = 0; time < 3; time += 1) {
      expect(await queue.next()).to.include({ id: 'a', attempt: 1, isSuspect: false });
      await queue.restart();
    }
  });

  it('keeps what was saved, and what was accepted since, until it is started', async () => {
    const folder = await migratedFolder();
    const first = await start(folder, 'memory');
    await first.publish('ab');
    await first.publishKeyed('c', 'key');
    expect(await first.store.close()).to.equal(true);
    const file = openBeside(folder);
    const inFile = () => idsOf(file.prepare('SELECT id FROM messages ORDER BY arrival').all() as { id: string }[]);
    const store = openIn(folder, 'memory', { bounds: roomy, now: () => START });
    afterTest(() => store.close());
    expect(await store.reads.find('a')).to.have.property('message');
    file.exec('BEGIN IMMEDIATE');
    expect((await errorOf(() => store.start())).message).to.equal('database is locked');
    file.exec('COMMIT');
    await store.publish(messageOf('d'));
    expect(inFile()).to.equal('abc');
    expect(await store.close()).to.equal(true);
    expect(inFile()).to.equal('abcd');
    const next = await start(folder, 'memory');
    expect(inFile()).to.equal('');
    expect(await next.takeIds(5)).to.equal('abcd');
  });

  it('that was killed leaves the rows, and no number that a later row needs', async () => {
    const folder = await migratedFolder();
    for (const ids of ['ab', 'cd']) {
      // At the same time, as if the clock had been set back.
      const queue = await start(folder, 'memory');
      await queue.publish(ids);
      await queue.settleAll(await queue.takeAll(2), complete());
      expect(idsOf(await listIn(queue.store.reads.rows))).to.equal(ids === 'ab' ? 'ba' : 'dcba');
    }
  });
});

import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { beside, freshFolder, openIn, sqliteDriver } from './sqlite-driver.ts';
import { complete, discard, errorOf, HOUR, idsOf, listIn, messageOf, retry, roomy, START, TestQueue } from './stage.ts';

/** Opens the queue of a data folder as a new process would. */
async function start(folder: string, driver: 'memory' | 'sqlite'): Promise<TestQueue> {
  const queue = new TestQueue(sqliteDriver(driver, folder));
  await queue.open();
  return queue;
}

/** Opens the store of a data folder without starting it. */
function open(folder: string) {
  const store = openIn(folder, 'memory', { bounds: roomy, now: () => START });
  afterTest(() => store.close());
  return store;
}

describe('a data folder', () => {
  for (const [before, after] of [
    ['memory', 'sqlite'],
    ['sqlite', 'memory'],
  ] as const) {
    it(`keeps everything if the driver changes between two starts: ${before}, then ${after}`, async () => {
      const folder = await freshFolder();
      const first = await start(folder, before);
      await first.publish('abcdef');
      await first.publishKeyed('g', 'key');
      const [a, b, c] = await first.takeAll(3);
      await first.settle(a, complete());
      await first.settle(b, discard());
      await first.settle(c, retry(START + HOUR));
      await first.store.setPaused(true);
      const messages = await first.store.read([...'bcdefg']);
      const { bytes, oldest } = await first.store.counts();
      expect(await first.store.close()).to.equal(true);

      const second = await start(folder, after);
      await second.expectCounts({ accepted: 6, dead: 1, waiting: 4, retrying: 1, inFlight: 0, bytes, oldest });
      expect(await second.store.read([...'bcdefg'])).to.deep.equal(messages);
      expect(await second.stateOf('a')).to.equal('completed');
      expect(await second.publishKeyed('h', 'key')).to.equal('g');
      expect(await second.store.isPaused()).to.equal(true);
      await second.store.setPaused(false);
      expect(await second.takeIds(9)).to.equal('defg');
    });
  }

  it('keeps the queue of a process that was killed, for a start with the driver memory', async () => {
    const folder = await freshFolder();
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
  /** Saves the messages a, b and c. */
  const saved = async () => {
    const folder = await freshFolder();
    const first = await start(folder, 'memory');
    await first.publish('ab');
    await first.publishKeyed('c', 'key');
    expect(await first.store.close()).to.equal(true);
    const file = beside(folder);
    const inFile = () => idsOf(file.prepare('SELECT id FROM messages ORDER BY arrival').all() as { id: string }[]);
    expect(inFile()).to.equal('abc');
    return { folder, file, inFile };
  };

  it('leaves what was saved in the file until it is started, and knows it before', async () => {
    const { folder, inFile } = await saved();
    const store = open(folder);
    expect(await store.find('a')).to.have.property('message');
    expect(inFile()).to.equal('abc');
    await store.start();
    expect(inFile()).to.equal('');
    expect(idsOf((await store.take(5, false)).deliveries)).to.equal('abc');
  });

  it('keeps what was saved, and what was accepted since, if it is closed without a start', async () => {
    const { folder } = await saved();
    const store = open(folder);
    await store.publish(messageOf('d'));
    expect(await store.close()).to.equal(true);
    expect(await (await start(folder, 'memory')).takeIds(5)).to.equal('abcd');
  });

  it('cannot start while the file is locked, and has lost nothing when it can', async () => {
    const { folder, file, inFile } = await saved();
    const store = open(folder);
    file.exec('BEGIN IMMEDIATE');
    expect((await errorOf(() => store.start())).message).to.equal('database is locked');
    file.exec('COMMIT');
    expect(inFile()).to.equal('abc');
    await store.start();
    expect(idsOf((await store.take(5, false)).deliveries)).to.equal('abc');
  });

  it('that was killed leaves the rows, and no number that a later row needs', async () => {
    const folder = await freshFolder();
    for (const ids of ['ab', 'cd']) {
      // At the same time, as if the clock had been set back.
      const queue = await start(folder, 'memory');
      await queue.publish(ids);
      await queue.settleAll(await queue.takeAll(2), complete());
      expect(idsOf(await listIn(queue.store.rows))).to.equal(ids === 'ab' ? 'ba' : 'dcba');
    }
  });
});

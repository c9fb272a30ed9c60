import { dirname } from 'node:path';
import { mock } from 'node:test';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import type { LocalQueue } from '../../main/tasks/queue/local-queue.ts';
import { SqliteJournal } from '../../main/tasks/queue/sqlite-journal.ts';
import { afterTest } from '../support/cleanup.ts';
import { discard, lettersOf, openInbox, publishAll, retry } from './inbox.ts';
import { beside, durableTransactions, freshFile, open, openSqliteQueue } from './sqlite-queue.ts';

/** Opens a queue with as many dead letters. */
async function withDeadLetters(path: string, count: number): Promise<LocalQueue> {
  const queue = openSqliteQueue(path, { bounds: { maxLength: 5000, maxBytes: 1_000_000, maxKeys: 10 } });
  afterTest(() => queue.close());
  await Promise.all(Array.from({ length: count }, (_, index) => queue.publish({ id: `${index}`, body: `${index}` })));
  const inbox = openInbox(queue);
  await Promise.all((await inbox.take(count)).map((delivery) => delivery.settle(discard())));
  inbox.stop();
  return queue;
}

/** Lets the first write of a bulk call succeed, and replaces the second. */
function replaceSecondWrite(method: 'redrive' | 'purgeAll', replacement: () => Promise<void>): void {
  const { mock: spy } = mock.method(SqliteJournal.prototype, method);
  spy.mockImplementationOnce(replacement, 1);
  afterTest(() => spy.restore());
}

/** Returns the ids that are stored in a table of the queue's file. */
const stored = (path: string, table: string) =>
  beside(path)
    .prepare(`SELECT id FROM ${table} ORDER BY seq`)
    .all()
    .map(({ id }) => id);

const idsFrom = (from: number, to: number) => Array.from({ length: to - from }, (_, index) => `${from + index}`);

describe('the dead letters of the durable queue', () => {
  for (const call of ['redriveAll', 'purgeAll'] as const) {
    it(`are unchanged if ${call} cannot be written`, async () => {
      const path = await freshFile();
      const queue = await withDeadLetters(path, 3);
      const before = [queue.counts(), await lettersOf(queue)];
      const other = beside(path);
      other.exec('BEGIN IMMEDIATE');
      const error = await queue[call]({ all: true }).catch((reason: Error) => reason);
      other.exec('COMMIT');
      expect(error).to.be.instanceOf(Error).with.property('message', 'database is locked');
      expect([queue.counts(), await lettersOf(queue)]).to.deep.equal(before);
      expect(await queue[call]({ all: true })).to.deep.equal({ count: 3, remaining: 0 });
    });

    it(`are handled by ${call} in one transaction for each thousand`, async () => {
      const queue = await withDeadLetters(await freshFile(), 2500);
      const durable = durableTransactions();
      expect(await queue[call]({ all: true })).to.deep.equal({ count: 2500, remaining: 0 });
      expect(durable()).to.deep.equal(Array(3).fill(call === 'redriveAll'));
    });
  }

  it('are each either redriven or kept if a write fails in the middle', async () => {
    const path = await freshFile();
    const queue = await withDeadLetters(path, 1500);
    replaceSecondWrite('redrive', async () => {
      throw new Error('disk full');
    });
    const error = await queue.redriveAll({ all: true }).catch((reason: Error) => reason);
    expect(error).to.be.instanceOf(Error).with.property('message', 'disk full');
    expect(queue.counts()).to.include({ accepted: 1500, waiting: 1000, dead: 500 });
    expect((await lettersOf(queue)).map(({ id }) => id)).to.deep.equal(idsFrom(1000, 1500));
    expect([stored(path, 'messages'), stored(path, 'dead_letters')]).to.deep.equal([
      idsFrom(0, 1000),
      idsFrom(1000, 1500),
    ]);
    expect(await queue.redriveAll({ all: true })).to.deep.equal({ count: 500, remaining: 0 });
  });

  for (const [call, method, left] of [
    ['redriveAll', 'redrive', { accepted: 1500, waiting: 1000, dead: 500 }],
    ['purgeAll', 'purgeAll', { accepted: 500, waiting: 0, dead: 500 }],
  ] as const) {
    it(`are each there once if the process dies in the middle of ${call}`, async () => {
      const path = await freshFile();
      const queue = await withDeadLetters(path, 1500);
      const reached = Promise.withResolvers<void>();
      replaceSecondWrite(method, () => {
        reached.resolve();
        return new Promise(() => {});
      });
      void queue[call]({ all: true });
      await reached.promise;
      const after = openSqliteQueue(path, { bounds: { maxLength: 5000, maxBytes: 1_000_000, maxKeys: 10 } });
      afterTest(() => after.close());
      expect(after.counts()).to.include(left);
      expect((await lettersOf(after)).map(({ id }) => id)).to.deep.equal(idsFrom(1000, 1500));
      const waiting = idsFrom(0, left.waiting);
      const deliveries = await openInbox(after).take(waiting.length);
      expect(deliveries.map(({ message }) => message.id)).to.deep.equal(waiting);
    });
  }

  it('can be found while they are redriven, and are not redriven twice', async () => {
    const queue = await withDeadLetters(await freshFile(), 2);
    const redriven = queue.redriveAll({ all: true });
    expect(await queue.find('0')).to.deep.include({ state: 'queued', history: [] });
    expect(await queue.redrive('0')).to.equal(false);
    expect(await queue.purgeAll({ all: true })).to.deep.equal({ count: 0, remaining: 0 });
    expect(await lettersOf(queue)).to.deep.equal([]);
    expect(await redriven).to.deep.equal({ count: 2, remaining: 0 });
  });
});

describe('the history in the durable queue', () => {
  it('has the attempts that were charged because the process died', async () => {
    const path = await freshFile();
    const first = open(path);
    await publishAll(first, 'a');
    const inbox = openInbox(first);
    await (await inbox.next()).settle(retry());
    await inbox.next();
    await (await openInbox(open(path)).next()).markRunning();
    const found = await open(path).find('a');
    expect(found && 'history' in found && found.history.map(({ reason }) => reason)).to.deep.equal([
      'it failed',
      'the process died while the task was running',
    ]);
  });

  it('is empty in a database of the version before, whose dead letters are not permanent', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'ab');
    const [a, b] = await openInbox(before).take(2);
    await a?.settle(retry(60_000));
    await b?.settle(discard('bad data'));
    await before.close();
    const database = beside(path);
    database.exec('ALTER TABLE messages DROP COLUMN history; ALTER TABLE dead_letters DROP COLUMN history');
    database.exec('ALTER TABLE dead_letters DROP COLUMN permanent; DROP TABLE pauses; PRAGMA user_version = 4');
    migrate(dirname(path));
    const after = open(path);
    expect(await after.find('a')).to.deep.include({ state: 'retrying', attempts: 1, history: [] });
    const [letter] = await lettersOf(after);
    expect(letter).to.deep.include({ id: 'b', reason: 'bad data', permanent: false, history: [] });
    expect(after.paused).to.equal(false);
  });
});

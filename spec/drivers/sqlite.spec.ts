import { dirname } from 'node:path';
import { expect } from 'chai';
import { migrate } from '../../db/sqlite/migrate.ts';
import { DeadLetterStore } from '../../main/tasks/queue/dead-letter-store.ts';
import type { Queue } from '../../main/tasks/queue/queue.ts';
import { afterTest } from '../support/cleanup.ts';
import { describeDriver } from './conformance.ts';
import { discard, idsOf, keyed, lettersOf, openInbox, publishAll, retry } from './inbox.ts';
import { beside, durableTransactions, freshFile, open, openSqliteQueue } from './sqlite-queue.ts';

const paths = new WeakMap<Queue, string>();

describeDriver(
  'the durable queue',
  async (bounds, onEvent) => {
    const path = await freshFile();
    const queue = openSqliteQueue(path, { bounds, onEvent });
    paths.set(queue, path);
    return queue;
  },
  async (closed) => open(paths.get(closed) as string),
);

describe('the durable queue, opened again', () => {
  it('delivers what was waiting, in order, and goes on counting', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'abc');
    await (await openInbox(before).next()).ack();
    await before.close();
    const after = open(path);
    expect(after.counts()).to.include({ accepted: 2, waiting: 2, bytes: before.counts().bytes });
    await publishAll(after, 'd');
    expect(idsOf(await openInbox(after).take(3))).to.deep.equal(['b', 'c', 'd']);
  });

  it('holds a message as soon as its publishing is over, closed or not', async () => {
    const path = await freshFile();
    await publishAll(open(path), 'ab');
    expect(idsOf(await openInbox(open(path)).take(2))).to.deep.equal(['a', 'b']);
  });

  it('delivers what was in flight when the process died as a suspect, and charges no attempt', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'abc');
    const [a] = await openInbox(before).take(2);
    await a?.markRunning();
    const deliveries = await openInbox(open(path)).take(3);
    expect(
      deliveries.map(({ message, attempt, crashes, suspect }) => [message.id, attempt, crashes, suspect]),
    ).to.deep.equal([
      ['a', 1, 0, true],
      ['b', 1, 0, true],
      ['c', 1, 0, false],
    ]);
  });

  it('charges a suspect that was running when the process died again, and not one that waited', async () => {
    const path = await freshFile();
    await publishAll(open(path), 'ab');
    await openInbox(open(path)).take(2);
    for (const crashes of [0, 1, 2]) {
      const [a, b] = await openInbox(open(path)).take(2);
      expect(a).to.include({ attempt: 1 + crashes, crashes, suspect: true });
      expect(b).to.include({ attempt: 1, crashes: 0, suspect: true });
      await a?.markRunning();
    }
  });

  it('opens a database of the version before, whose running messages are suspects', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'ab');
    await before.close();
    const database = beside(path);
    database.exec('ALTER TABLE messages DROP COLUMN suspect; PRAGMA user_version = 3');
    database.exec("UPDATE messages SET running = 1 WHERE id = 'a'");
    migrate(dirname(path));
    const [a, b] = await openInbox(open(path)).take(2);
    expect(a).to.include({ attempt: 1, crashes: 0, suspect: true });
    expect(b).to.include({ attempt: 1, crashes: 0, suspect: false });
  });

  it('keeps attempts and crashes, and delivers a retry when it is due', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'ab');
    const [a, b] = await openInbox(before).take(2);
    await a?.settle(retry(0, 'crash'));
    await b?.settle(retry(60_000));
    await before.close();
    const after = open(path);
    expect(after.counts()).to.include({ waiting: 1, delayed: 1 });
    const delivery = await openInbox(after).next();
    expect(delivery.message.id).to.equal('a');
    expect(delivery).to.deep.include({ attempt: 2, crashes: 1 });
  });

  it('stays paused until it is resumed', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'a');
    await before.pause();
    // The queue is not closed, as when its process is killed.
    const after = open(path);
    expect(after.paused).to.equal(true);
    expect(await openInbox(after).takeReady(1)).to.deep.equal([]);
    await after.resume();
    expect(open(path).paused).to.equal(false);
  });

  it('is neither paused nor resumed if that cannot be stored', async () => {
    const path = await freshFile();
    const queue = open(path);
    const other = beside(path);
    const failing = async (change: () => Promise<void>) => {
      other.exec('BEGIN IMMEDIATE');
      const error = await change().catch((reason: Error) => reason);
      other.exec('COMMIT');
      expect(error).to.be.instanceOf(Error).with.property('message', 'database is locked');
    };
    await failing(() => queue.pause());
    expect(queue.paused).to.equal(false);
    await publishAll(queue, 'a');
    await queue.pause();
    await failing(() => queue.resume());
    expect(queue.paused).to.equal(true);
    await publishAll(queue, 'b');
    expect(open(path).paused).to.equal(true);
  });

  it('keeps its dead letters, except the evicted ones', async () => {
    const path = await freshFile();
    const before = open(path, new DeadLetterStore({ maxLength: 2, maxBytes: 1000 }));
    await publishAll(before, 'abc');
    for (const delivery of await openInbox(before).take(3)) await delivery.settle(discard());
    const letters = await lettersOf(before);
    await before.close();
    const after = open(path);
    expect(await lettersOf(after)).to.deep.equal(letters);
    expect(letters.map(({ id }) => id)).to.deep.equal(['b', 'c']);
    await publishAll(after, 'd');
    expect(after.counts()).to.include({ accepted: 3, dead: 2, waiting: 1 });
  });

  it('does not accept what it cannot write, and goes on when it can again', async () => {
    const path = await freshFile();
    const queue = open(path);
    const other = beside(path);
    other.exec('BEGIN IMMEDIATE');
    const error = await queue.publish({ id: 'a', body: 'a' }).catch((reason: Error) => reason);
    expect(error).to.be.instanceOf(Error).with.property('message', 'database is locked');
    expect(queue.counts()).to.include({ accepted: 0, waiting: 0, bytes: 0 });
    other.exec('COMMIT');
    await publishAll(queue, 'b');
    expect((await openInbox(queue).next()).message.id).to.equal('b');
  });

  it('keeps redrives and purges of dead letters, and idempotency keys', async () => {
    const path = await freshFile();
    const before = open(path);
    for (const id of ['a', 'b', 'c']) await before.publish({ id, body: id }, keyed(`key of ${id}`));
    for (const delivery of await openInbox(before).take(3)) await delivery.settle(discard());
    await before.redrive('a');
    await before.purge('b');
    await before.close();
    const after = open(path);
    expect(after.counts()).to.include({ accepted: 2, dead: 1, waiting: 1 });
    expect((await lettersOf(after)).map(({ id }) => id)).to.deep.equal(['c']);
    expect(await openInbox(after).next()).to.deep.include({ message: { id: 'a', body: 'a' }, attempt: 1 });
    expect(await after.publish({ id: 'd', body: 'd' }, keyed('key of b'))).to.equal('b');
  });

  it('keeps a completed message until its result row is on disk', async () => {
    const path = await freshFile();
    const safe = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const rowsOnDisk = () => {
      asked.resolve();
      return safe.promise;
    };
    const queue = openSqliteQueue(path, { rowsOnDisk });
    afterTest(() => queue.close());
    await publishAll(queue, 'ab');
    const acked = (await openInbox(queue).next()).ack();
    await asked.promise;
    // The transaction of another message must not commit the ack early.
    await publishAll(queue, 'c');
    const messages = beside(path).prepare('SELECT id FROM messages ORDER BY id');
    expect(queue.counts()).to.include({ completed: 1 });
    expect(messages.all().map(({ id }) => id)).to.deep.equal(['a', 'b', 'c']);
    safe.resolve();
    await acked;
    expect(messages.all().map(({ id }) => id)).to.deep.equal(['b', 'c']);
  });

  it('waits for the disk when it accepts, dead-letters or redrives a message, and at no other time', async () => {
    const durable = durableTransactions();
    const queue = open(await freshFile());
    const inbox = openInbox(queue);
    await publishAll(queue, 'a');
    expect(durable()).to.deep.equal([true]);
    const first = await inbox.next();
    await first.markRunning();
    await first.settle(retry());
    expect(durable()).to.deep.equal([false, false]);
    const second = await inbox.next();
    expect(durable()).to.deep.equal([false]);
    await second.settle(discard());
    expect(durable()).to.deep.equal([true]);
    await queue.redrive('a');
    expect(durable()).to.deep.equal([true]);
    await (await inbox.next()).ack();
    expect(durable()).to.deep.equal([false, false]);
  });

  it('waits for rows that are on their way when it is closed', async () => {
    const path = await freshFile();
    const safe = Promise.withResolvers<void>();
    const queue = openSqliteQueue(path, { rowsOnDisk: () => safe.promise });
    await publishAll(queue, 'a');
    void (await openInbox(queue).next()).ack();
    const closed = queue.close();
    safe.resolve();
    await closed;
    expect(beside(path).prepare('SELECT id FROM messages').all()).to.deep.equal([]);
  });

  it('keeps a suspect until an attempt has ended, even if it is released or the driver is changed', async () => {
    const path = await freshFile();
    await publishAll(open(path), 'a');
    await openInbox(open(path)).next();
    const queue = open(path);
    const inbox = openInbox(queue);
    for (const settlement of [{ kind: 'release' }, { kind: 'snooze', delayMs: 0, reason: '' }] as const) {
      const delivery = await inbox.next();
      expect(delivery.suspect).to.equal(true);
      await delivery.markRunning();
      await delivery.settle(settlement);
    }
    expect(queue.snapshot().messages.map(({ suspect }) => suspect)).to.deep.equal([true]);
    await (await inbox.next()).settle(retry());
    expect((await inbox.next()).suspect).to.equal(false);
  });

  it('waits no longer for a retry than any retry does, whatever became of the clock', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'a');
    await (await openInbox(before).next()).settle(retry(1_000_000_000));
    await before.close();
    const progress = await open(path).find('a');
    expect(progress).to.have.property('state', 'retrying');
    expect(progress)
      .to.have.property('dueAt')
      .that.is.at.most(Date.now() + 24 * 3_600_000);
  });

  it('drops from disk the dead letters that are too many when it is opened', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'abc');
    for (const delivery of await openInbox(before).take(3)) await delivery.settle(discard());
    await before.close();
    const smaller = open(path, new DeadLetterStore({ maxLength: 1, maxBytes: 100 }));
    expect(smaller.counts()).to.include({ accepted: 3, dead: 1, dropped: 2 });
    await smaller.close();
    expect(beside(path).prepare('SELECT id FROM dead_letters').all()).to.deep.equal([{ id: 'c' }]);
  });

  it('deletes evicted idempotency keys from disk', async () => {
    const path = await freshFile();
    const before = open(path);
    for (let i = 0; i < 12; i++) await before.publish({ id: `${i}`, body: '' }, keyed(`${i}`));
    await before.close();
    const keys = beside(path).prepare('SELECT key FROM idempotency_keys ORDER BY accepted_at, rowid').all();
    expect(keys.map(({ key }) => key)).to.deep.equal(['2', '3', '4', '5', '6', '7', '8', '9', '10', '11']);
  });
});

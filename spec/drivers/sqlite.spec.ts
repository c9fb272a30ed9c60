import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { mock } from 'node:test';
import { expect } from 'chai';
import { Database } from '../../db/database.ts';
import { migrate } from '../../db/migrate.ts';
import { DeadLetters } from '../../main/tasks/queue/dead-letters.ts';
import type { Delivery, QueueDriver } from '../../main/tasks/queue/driver.ts';
import type { MemoryQueue } from '../../main/tasks/queue/memory.ts';
import { openSqliteQueue } from '../../main/tasks/queue/sqlite.ts';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { until } from '../support/until.ts';
import { describeDriver } from './conformance.ts';
import { idsOf, lettersOf, openInbox, publishAll, retry } from './inbox.ts';

const roomy = { maxLength: 1000, maxBytes: 100_000, maxKeys: 10 };

async function freshFile(): Promise<string> {
  const folder = await temporaryFolder();
  migrate(folder);
  return join(folder, 'queue.db');
}

function open(path: string, deadLetters?: DeadLetters): MemoryQueue {
  const queue = openSqliteQueue({
    path,
    bounds: roomy,
    ...(deadLetters && { deadLetters }),
    rowsOnDisk: async () => {},
  });
  afterTest(() => queue.close());
  return queue;
}

/** A second connection to the queue's file. */
function beside(path: string): DatabaseSync {
  const database = new DatabaseSync(path);
  afterTest(() => database.close());
  return database;
}

/** Returns a function that returns, for each transaction since its last call, whether the transaction waits for the disk. */
function durableTransactions(): () => boolean[] {
  const { mock: spy } = mock.method(Database.prototype, 'transaction');
  afterTest(() => spy.restore());
  return () => {
    const calls = spy.calls.map(({ arguments: [durable] }) => durable);
    spy.resetCalls();
    return calls;
  };
}

const paths = new WeakMap<QueueDriver, string>();

describeDriver(
  'the durable queue',
  async (bounds, onEvent) => {
    const path = await freshFile();
    const queue = openSqliteQueue({ path, bounds, rowsOnDisk: async () => {}, onEvent });
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
    await (await openInbox(before, 1).next()).ack();
    await before.close();
    const after = open(path);
    expect(after.counts()).to.include({ accepted: 2, waiting: 2, bytes: before.counts().bytes });
    await publishAll(after, 'd');
    expect(idsOf(await openInbox(after, 5).take(3))).to.deep.equal(['b', 'c', 'd']);
  });

  it('holds a message as soon as its publishing is over, closed or not', async () => {
    const path = await freshFile();
    await publishAll(open(path), 'ab');
    expect(idsOf(await openInbox(open(path), 5).take(2))).to.deep.equal(['a', 'b']);
  });

  it('counts an attempt that the end of the process cut off as a crash, and one that had not begun not at all', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'ab');
    const [a] = await openInbox(before, 2).take(2);
    await a?.begin();
    const [again, untouched] = await openInbox(open(path), 2).take(2);
    expect(again).to.deep.include({ attempt: 2, crashes: 1, cut: true });
    expect(untouched).to.deep.include({ attempt: 1, crashes: 0, cut: false });
  });

  it('keeps attempts and crashes, and delivers a retry when it is due', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'ab');
    const [a, b] = await openInbox(before, 2).take(2);
    await a?.nack(retry(0, true));
    await b?.nack(retry(60_000));
    await before.close();
    const after = open(path);
    expect(after.counts()).to.include({ waiting: 1, delayed: 1 });
    const delivery = await openInbox(after, 2).next();
    expect(delivery.message.id).to.equal('a');
    expect(delivery).to.deep.include({ attempt: 2, crashes: 1 });
  });

  it('keeps its dead letters, but for those that had to make room', async () => {
    const path = await freshFile();
    const before = open(path, new DeadLetters({ maxLength: 2, maxBytes: 1000 }));
    await publishAll(before, 'abc');
    for (const delivery of await openInbox(before, 3).take(3)) await delivery.nack({ verdict: 'dead', reason: 'no' });
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
    expect((await openInbox(queue, 1).next()).message.id).to.equal('b');
  });

  it('keeps what was done about its dead letters, and the submissions with a key', async () => {
    const path = await freshFile();
    const before = open(path);
    for (const id of ['a', 'b', 'c']) await before.publish({ id, body: id }, { key: `key of ${id}`, fingerprint: 'x' });
    for (const delivery of await openInbox(before, 3).take(3)) await delivery.nack({ verdict: 'dead', reason: 'no' });
    await before.retryDeadLetter('a');
    await before.deleteDeadLetter('b');
    await before.close();
    const after = open(path);
    expect(after.counts()).to.include({ accepted: 2, dead: 1, waiting: 1 });
    expect((await lettersOf(after)).map(({ id }) => id)).to.deep.equal(['c']);
    expect(await openInbox(after, 1).next()).to.deep.include({ message: { id: 'a', body: 'a' }, attempt: 1 });
    expect(await after.publish({ id: 'd', body: 'd' }, { key: 'key of b', fingerprint: 'x' })).to.equal('b');
  });

  it('keeps what is done until its row is safe', async () => {
    const path = await freshFile();
    const safe = Promise.withResolvers<void>();
    const asked = Promise.withResolvers<void>();
    const rowsOnDisk = () => {
      asked.resolve();
      return safe.promise;
    };
    const queue = openSqliteQueue({ path, bounds: roomy, rowsOnDisk });
    afterTest(() => queue.close());
    await publishAll(queue, 'ab');
    const acked = (await openInbox(queue, 1).next()).ack();
    await asked.promise;
    // Another transaction does not take it along.
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
    const inbox = openInbox(queue, 1);
    await publishAll(queue, 'a');
    expect(durable()).to.deep.equal([true]);
    const first = await inbox.next();
    await first.begin();
    await first.nack(retry());
    expect(durable()).to.deep.equal([false, false]);
    await (await inbox.next()).nack({ verdict: 'dead', reason: 'no' });
    expect(durable()).to.deep.equal([true]);
    await queue.retryDeadLetter('a');
    expect(durable()).to.deep.equal([true]);
    await (await inbox.next()).ack();
    expect(durable()).to.deep.equal([false]);
  });

  it('waits for rows that are on their way when it is closed', async () => {
    const path = await freshFile();
    const safe = Promise.withResolvers<void>();
    const queue = openSqliteQueue({ path, bounds: roomy, rowsOnDisk: () => safe.promise });
    await publishAll(queue, 'a');
    void (await openInbox(queue, 1).next()).ack();
    const closed = queue.close();
    safe.resolve();
    await closed;
    expect(beside(path).prepare('SELECT id FROM messages').all()).to.deep.equal([]);
  });

  it('tells once that an attempt was cut off, and again where that attempt was only given back', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'a');
    await (await openInbox(before, 1).next()).begin();
    const inbox = openInbox(open(path), 1);
    const first = await inbox.next();
    expect(first.cut).to.equal(true);
    await first.release();
    const second = await inbox.next();
    expect(second.cut).to.equal(true);
    await second.nack(retry());
    expect((await inbox.next()).cut).to.equal(false);
  });

  it('waits no longer for a retry than any retry does, whatever became of the clock', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'a');
    await (await openInbox(before, 1).next()).nack(retry(1_000_000_000));
    await before.close();
    const progress = await open(path).find('a');
    expect(progress).to.have.property('state', 'retrying');
    expect(progress)
      .to.have.property('dueAt')
      .that.is.below(Date.now() + 61_000);
  });

  it('drops from disk the dead letters that are too many when it is opened', async () => {
    const path = await freshFile();
    const before = open(path);
    await publishAll(before, 'abc');
    for (const delivery of await openInbox(before, 3).take(3)) await delivery.nack({ verdict: 'dead', reason: 'no' });
    await before.close();
    const smaller = open(path, new DeadLetters({ maxLength: 1, maxBytes: 100 }));
    expect(smaller.counts()).to.include({ accepted: 3, dead: 1, dropped: 2 });
    await smaller.close();
    expect(beside(path).prepare('SELECT id FROM dead_letters').all()).to.deep.equal([{ id: 'c' }]);
  });

  it('forgets on disk the keys that it forgets', async () => {
    const path = await freshFile();
    const before = open(path);
    for (let i = 0; i < 12; i++) await before.publish({ id: `${i}`, body: '' }, { key: `${i}`, fingerprint: 'x' });
    await before.close();
    const keys = beside(path).prepare('SELECT key FROM idempotency_keys ORDER BY accepted_at, rowid').all();
    expect(keys.map(({ key }) => key)).to.deep.equal(['2', '3', '4', '5', '6', '7', '8', '9', '10', '11']);
  });
});

describe('the durable queue, while its file takes nothing', () => {
  /** A queue with four deliveries a, b, c, d in flight, whose file is locked. */
  async function locked() {
    const path = await freshFile();
    const queue = open(path);
    await publishAll(queue, 'abcd');
    const deliveries = await openInbox(queue, 4).take(4);
    for (const delivery of deliveries) await delivery.begin();
    const other = beside(path);
    other.exec('BEGIN IMMEDIATE');
    return { path, queue, other, deliveries };
  }

  /** Settles the four: done, to be tried again, given up, and given back. */
  async function settleAll(deliveries: Delivery[]): Promise<unknown[]> {
    const [a, b, c, d] = deliveries;
    const settled = [a?.ack(), b?.nack(retry(60_000)), c?.nack({ verdict: 'dead', reason: 'no' }), d?.release()];
    return Promise.all(settled.map((promise) => promise?.catch(({ message }) => message)));
  }

  const stored = (path: string) => ({
    messages: beside(path).prepare('SELECT id, running, attempts, due_at > 0 AS later FROM messages ORDER BY id').all(),
    letters: beside(path).prepare('SELECT id FROM dead_letters').all(),
  });
  const settledState = {
    messages: [
      { id: 'b', running: 0, attempts: 1, later: 1 },
      { id: 'd', running: 0, attempts: 0, later: 0 },
    ],
    letters: [{ id: 'c' }],
  };

  it('says that a settlement is not on disk, and goes on from memory', async () => {
    const { queue, deliveries } = await locked();
    expect(await settleAll(deliveries)).to.deep.equal(Array(4).fill('database is locked'));
    expect(queue.counts()).to.include({ completed: 1, delayed: 1, dead: 1 });
  });

  it('writes what it owes by itself when it can, in the right order', async () => {
    const { path, other, deliveries, queue } = await locked();
    expect(queue.counts().inFlight).to.equal(4);
    await settleAll(deliveries);
    other.exec('COMMIT');
    await until(() => stored(path).letters.length === 1);
    expect(stored(path)).to.deep.equal(settledState);
  });

  it('waits for the disk when it repeats failed writes', async () => {
    const { path, other, deliveries } = await locked();
    await settleAll(deliveries);
    const durable = durableTransactions();
    other.exec('COMMIT');
    await until(() => stored(path).letters.length === 1);
    expect(durable().at(-1)).to.equal(true);
  });

  it('waits for a lock once, then not again until the lock is released', async () => {
    const { other, queue } = await locked();
    const { mock: spy } = mock.method(Database.prototype, 'statement');
    afterTest(() => spy.restore());
    const timeouts = () => spy.calls.map(({ arguments: [sql] }) => sql).filter((sql) => sql.includes('busy_timeout'));
    for (const id of ['e', 'f']) await queue.publish({ id, body: id }).catch(() => {});
    other.exec('COMMIT');
    await publishAll(queue, 'gh');
    const changes = timeouts().filter((sql, index, all) => sql !== all[index - 1]);
    expect(changes).to.deep.equal([100, 0, 100].map((ms) => `PRAGMA busy_timeout = ${ms}`));
  });

  it('writes it at once with the next submission', async () => {
    const { path, other, deliveries, queue } = await locked();
    await settleAll(deliveries);
    other.exec('COMMIT');
    await publishAll(queue, 'e');
    expect(stored(path).messages.map(({ id }) => id)).to.deep.equal(['b', 'd', 'e']);
    expect(stored(path).letters).to.deep.equal(settledState.letters);
  });

  it('writes it when it is closed', async () => {
    const { path, other, deliveries, queue } = await locked();
    await settleAll(deliveries);
    other.exec('COMMIT');
    await queue.close();
    expect(stored(path)).to.deep.equal(settledState);
  });

  it('puts a dead letter back that could not be revived, and lets it be revived later', async () => {
    const { path, other, deliveries, queue } = await locked();
    await settleAll(deliveries);
    const error = await queue.retryDeadLetter('c').catch(({ message }) => message);
    expect(error).to.equal('database is locked');
    expect(queue.counts()).to.include({ dead: 1 });
    other.exec('COMMIT');
    expect(await queue.retryDeadLetter('c')).to.equal(true);
    expect(stored(path).letters).to.deep.equal([]);
    expect(stored(path).messages.map(({ id }) => id)).to.include('c');
  });

  it('forgets a dead letter that is deleted before it was ever written', async () => {
    const { path, other, deliveries, queue } = await locked();
    await settleAll(deliveries);
    expect(await queue.deleteDeadLetter('c').catch(({ message }) => message)).to.equal('database is locked');
    other.exec('COMMIT');
    await queue.close();
    expect(stored(path).letters).to.deep.equal([]);
    expect(stored(path).messages.map(({ id }) => id)).to.deep.equal(['b', 'd']);
  });
});

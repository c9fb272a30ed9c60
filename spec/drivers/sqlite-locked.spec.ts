import { mock } from 'node:test';
import { expect } from 'chai';
import { Database } from '../../db/sqlite/database.ts';
import { afterTest } from '../support/cleanup.ts';
import { until } from '../support/until.ts';
import { discard, openInbox, publishAll, type Received, retry } from './inbox.ts';
import { beside, durableTransactions, freshFile, open } from './sqlite-queue.ts';

describe('the durable queue, while its file takes nothing', () => {
  /** Opens a queue with four deliveries a, b, c, d in flight, whose file is locked. */
  async function locked() {
    const path = await freshFile();
    const queue = open(path);
    await publishAll(queue, 'abcd');
    const deliveries = await openInbox(queue).take(4);
    for (const delivery of deliveries) await delivery.markRunning();
    const other = beside(path);
    other.exec('BEGIN IMMEDIATE');
    return { path, queue, other, deliveries };
  }

  /** Settles the four deliveries: acked, retried, discarded and released. */
  async function settleAll(deliveries: Received[]): Promise<unknown[]> {
    const [a, b, c, d] = deliveries;
    const settled = [a?.ack(), b?.settle(retry(60_000)), c?.settle(discard()), d?.release()];
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

  it('retries its pending writes automatically, in the right order', async () => {
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
    const error = await queue.redrive('c').catch(({ message }) => message);
    expect(error).to.equal('database is locked');
    expect(queue.counts()).to.include({ dead: 1 });
    other.exec('COMMIT');
    expect(await queue.redrive('c')).to.equal(true);
    expect(stored(path).letters).to.deep.equal([]);
    expect(stored(path).messages.map(({ id }) => id)).to.include('c');
  });

  it('forgets a dead letter that is deleted before it was ever written', async () => {
    const { path, other, deliveries, queue } = await locked();
    await settleAll(deliveries);
    expect(await queue.purge('c').catch(({ message }) => message)).to.equal('database is locked');
    other.exec('COMMIT');
    await queue.close();
    expect(stored(path).letters).to.deep.equal([]);
    expect(stored(path).messages.map(({ id }) => id)).to.deep.equal(['b', 'd']);
  });
});

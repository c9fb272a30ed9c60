import { mock } from 'node:test';
import { expect } from 'chai';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import type { Delivery } from '../../../main/tasks/queue/queue.ts';
import { until } from '../../support/until.ts';
import { never, raisedForGood, returned, startDispatching, unstored } from './dispatching.ts';
import { HandDrivenPool } from './hand-driven-pool.ts';

const start = () => startDispatching(new HandDrivenPool(1));

describe('Dispatcher, while results cannot be stored', () => {
  afterEach(() => mock.timers.reset());

  it('releases all tasks without an attempt, and pauses for longer each time', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const pass = async (ms: number) => {
      mock.timers.tick(ms);
      await new Promise(setImmediate);
    };
    const { pool, publish, queue, lines, reach } = start();
    await publish(...'abc');
    (await pool.given(1)).end(unstored);
    await reach(() => lines.length === 1);
    expect(lines[0]).to.include({ level: 50, reason: 'disk full', delayMs: 100 });
    await reach(({ inFlight }) => inFlight === 0);
    expect(queue.counts()).to.include({ waiting: 3, delayed: 0 });
    const [first] = pool.runs.splice(0);
    await pass(99);
    expect(pool.runs).to.deep.equal([]);
    await pass(1);
    expect((await pool.given(1)).delivery).to.deep.equal(first?.delivery);
    pool.runs[0]?.end(unstored);
    await reach(() => lines.length === 2);
    expect(lines[1]).to.include({ delayMs: 200 });
    pool.runs.splice(0);
    await pass(199);
    expect(pool.runs).to.deep.equal([]);
    await pass(1);
    for (const count of [1, 2, 3]) (await pool.given(count)).end(returned);
    expect(await reach(({ completed }) => completed === 3)).to.include({ dead: 0 });
  });

  it('begins with the shortest pause again once a result was stored', async () => {
    const { pool, publish, lines, reach } = startDispatching(new HandDrivenPool(), { prefetch: 1 });
    await publish(...'ab');
    (await pool.given(1)).end(unstored);
    (await pool.given(2)).end(returned);
    (await pool.given(3)).end(unstored);
    await reach(() => lines.length === 2);
    expect(lines.map(({ delayMs }) => delayMs)).to.deep.equal([100, 100]);
  });

  it('says why until a result was stored', async () => {
    const { pool, publish, dispatcher, reach } = startDispatching(new HandDrivenPool(), { prefetch: 1 });
    await publish('a');
    expect(dispatcher.writeFailure).to.equal(undefined);
    (await pool.given(1)).end(unstored);
    await pool.given(2);
    expect(dispatcher.writeFailure).to.equal('disk full');
    pool.runs[1]?.end(returned);
    await reach(({ completed }) => completed === 1);
    expect(dispatcher.writeFailure).to.equal(undefined);
  });

  it('no longer says why once nothing is left to do', async () => {
    const { pool, publish, dispatcher, reach } = startDispatching(new HandDrivenPool(), { prefetch: 1 });
    await publish('a');
    (await pool.given(1)).end(unstored);
    (await pool.given(2)).end(raisedForGood);
    await reach(({ dead }) => dead === 1);
    await until(() => dispatcher.writeFailure === undefined);
  });

  it('says why as long as the queue is paused', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const { pool, publish, queue, dispatcher, reach } = startDispatching(new HandDrivenPool(), { prefetch: 1 });
    await publish('a');
    const run = await pool.given(1);
    await queue.pause();
    run.end(unstored);
    await reach(({ inFlight }) => inFlight === 0);
    mock.timers.tick(100);
    await new Promise(setImmediate);
    expect(dispatcher.writeFailure).to.equal('disk full');
    await queue.resume();
    (await pool.given(2)).end(returned);
    await reach(({ completed }) => completed === 1);
    expect(dispatcher.writeFailure).to.equal(undefined);
  });

  it('stops at once, and loses nothing', async () => {
    const { pool, publish, queue, dispatcher, lines, reach } = start();
    await publish(...'abc');
    (await pool.given(1)).end(unstored);
    await reach(() => lines.length === 1);
    await dispatcher.stop(never);
    expect(queue.counts()).to.include({ waiting: 3, inFlight: 0 });
  });

  it('runs nothing that the queue cannot record, until it can', async () => {
    class UnwritableQueue extends LocalQueue {
      broken = true;
      override take(max: number): Delivery[] | Promise<Delivery[]> {
        return this.broken ? Promise.reject(new Error('locked')) : super.take(max);
      }
    }
    const queue = new UnwritableQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 });
    const { pool, publish, lines, reach } = startDispatching(new HandDrivenPool(), { queue });
    await publish('a');
    await reach(() => lines.length === 1);
    expect(pool.runs).to.have.length(0);
    expect(lines[0]).to.include({ level: 50, delayMs: 100 });
    queue.broken = false;
    (await pool.given(1)).end(returned);
    await reach(({ completed }) => completed === 1);
  });
});

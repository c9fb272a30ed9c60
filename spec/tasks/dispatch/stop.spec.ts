import { expect } from 'chai';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import type { Delivery, Settlement } from '../../../main/tasks/queue/queue.ts';
import { openInbox } from '../../drivers/inbox.ts';
import { crashed, never, raised, returned, startDispatching } from './dispatching.ts';
import { HandDrivenPool } from './hand-driven-pool.ts';

const start = (workers?: number) => startDispatching(new HandDrivenPool(workers));

/** Whether a promise has resolved by now. */
async function isDone(promise: Promise<unknown>): Promise<boolean> {
  const done = promise.then(() => true);
  return Promise.race([done, new Promise<boolean>((resolve) => setImmediate(resolve, false))]);
}

describe('Dispatcher, draining', () => {
  it('is done at once with a queue that is empty', async () => {
    await start().dispatcher.drain(never);
  });

  it('waits for what runs, for what waits, and for what comes meanwhile', async () => {
    const { dispatcher, pool, publish, reach } = start(1);
    await publish('a', 'b');
    const drained = dispatcher.drain(never);
    (await pool.given(1)).end(returned);
    await reach(({ completed }) => completed === 1);
    expect(await isDone(drained)).to.equal(false);
    await publish('c');
    (await pool.given(2)).end(returned);
    (await pool.given(3)).end(returned);
    await drained;
    expect(await reach(() => true)).to.include({ completed: 3, inFlight: 0, waiting: 0 });
  });

  it('waits for what will be tried again', async () => {
    const { dispatcher, pool, publish } = start();
    await publish('a');
    (await pool.given(1)).end(raised);
    const drained = dispatcher.drain(never);
    const again = await pool.given(2);
    expect(await isDone(drained)).to.equal(false);
    again.end(returned);
    await drained;
  });

  it('ends as soon as the queue is empty, although the last task is settled after a lookup', async () => {
    const { promise: isStored, resolve: answer } = Promise.withResolvers<boolean>();
    const { dispatcher, pool, publish, queue } = startDispatching(new HandDrivenPool(), { isStored: () => isStored });
    await publish('a');
    (await pool.given(1)).end(crashed);
    (await pool.given(2)).end(crashed);
    const drained = dispatcher.drain(never);
    expect(await isDone(drained)).to.equal(false);
    answer(false);
    await drained;
    expect(queue.counts()).to.include({ dead: 1, inFlight: 0 });
  });

  it('does not wait for the tasks of a paused queue, but for no more than what is recorded', async () => {
    const { dispatcher, pool, publish, queue } = start(1);
    await publish('a', 'b', 'c');
    await pool.given(1);
    const drained = dispatcher.drain(never);
    expect(await isDone(drained)).to.equal(false);
    await queue.pause();
    await drained;
    const stopped = dispatcher.stop(never);
    expect(await isDone(stopped)).to.equal(false);
    pool.runs[0]?.end(returned);
    await stopped;
    expect(queue.counts()).to.include({ completed: 1, waiting: 2, inFlight: 0 });
  });

  it('waits no longer than its deadline', async () => {
    const { dispatcher, publish, pool, queue } = start();
    await publish('a');
    await pool.given(1);
    const deadline = Promise.withResolvers<void>();
    const drained = dispatcher.drain(deadline.promise);
    expect(await isDone(drained)).to.equal(false);
    deadline.resolve();
    await drained;
    expect(queue.counts().inFlight).to.equal(1);
  });

  it('ends at the abort time if a task runs, and leaves the task to the stop', async () => {
    const { dispatcher, publish, pool, queue } = start();
    await publish('a');
    await pool.given(1);
    const abort = Promise.withResolvers<void>();
    const drained = dispatcher.drain(never, abort.promise);
    expect(await isDone(drained)).to.equal(false);
    abort.resolve();
    await drained;
    expect(queue.counts().inFlight).to.equal(1);
  });

  it('goes on after the abort time while only delayed tasks are left, and ends once another task is taken', async () => {
    const retry: Settlement = { kind: 'retry', delayMs: 60_000, reason: 'it failed', failure: 'transient' };
    const { dispatcher, publish, pool, reach } = startDispatching(new HandDrivenPool(), { decide: () => retry });
    await publish('a');
    (await pool.given(1)).end(raised);
    await reach(({ delayed }) => delayed === 1);
    const drained = dispatcher.drain(never, Promise.resolve());
    expect(await isDone(drained)).to.equal(false);
    await publish('b');
    await drained;
    expect(await reach(() => true)).to.include({ inFlight: 1, delayed: 1 });
  });
});

describe('Dispatcher, stopping', () => {
  it('waits for what runs, and starts nothing more', async () => {
    const { dispatcher, pool, publish, queue } = start(2);
    await publish(...'abcdefgh');
    await pool.given(5);
    const stopped = dispatcher.stop(never);
    pool.runs[0]?.end(returned);
    expect(await isDone(stopped)).to.equal(false);
    pool.runs[1]?.end(returned);
    await stopped;
    expect(pool.runs.filter(({ isStarted }) => isStarted)).to.have.length(2);
    expect(queue.counts()).to.include({ completed: 2, waiting: 6, inFlight: 0, delayed: 0 });
  });

  it('waits until the settlements are recorded', async () => {
    const { promise: recorded, resolve: record } = Promise.withResolvers<void>();
    class SlowQueue extends LocalQueue {
      override async settle(delivery: Delivery, settlement: Settlement): Promise<void> {
        await super.settle(delivery, settlement);
        await recorded;
      }
    }
    const queue = new SlowQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 });
    const { dispatcher, pool, publish, reach } = startDispatching(new HandDrivenPool(), { queue });
    await publish('a');
    (await pool.given(1)).end(returned);
    await reach(({ completed }) => completed === 1);
    const stopped = dispatcher.stop(never);
    expect(await isDone(stopped)).to.equal(false);
    record();
    await stopped;
  });

  it('releases what is being taken', async () => {
    const { promise: recorded, resolve: record } = Promise.withResolvers<void>();
    class SlowQueue extends LocalQueue {
      override take(max: number): Delivery[] | Promise<Delivery[]> {
        const taken = super.take(max) as Delivery[];
        return taken.length === 0 ? taken : recorded.then(() => taken);
      }
    }
    const queue = new SlowQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 });
    const { dispatcher, pool, publish } = startDispatching(new HandDrivenPool(), { queue });
    await publish('a');
    await new Promise(setImmediate);
    expect(queue.counts().inFlight).to.equal(1);
    const stopped = dispatcher.stop(never);
    record();
    await stopped;
    expect(queue.counts()).to.include({ waiting: 1, inFlight: 0 });
    expect(pool.busy).to.equal(0);
  });

  it('leaves what comes afterwards in the queue', async () => {
    const { dispatcher, publish, queue, pool } = start();
    await dispatcher.stop(never);
    await publish('a');
    expect(queue.counts()).to.include({ waiting: 1, inFlight: 0 });
    expect(pool.runs).to.deep.equal([]);
  });

  it('releases unstarted deliveries in their order, with no attempt counted', async () => {
    const { dispatcher, pool, publish, queue } = start(1);
    await publish(...'abcdefg');
    await pool.given(5);
    const stopped = dispatcher.stop(never);
    pool.runs[0]?.end(returned);
    await stopped;
    const order = (await openInbox(queue).takeReady(10)).map(({ message, attempt }) => `${message.id}${attempt}`);
    expect(order).to.deep.equal(['b1', 'c1', 'd1', 'e1', 'f1', 'g1']);
  });

  it('gives back what still runs at its deadline in the order it came, as not tried', async () => {
    const { dispatcher, pool, publish, queue, lines } = start(2);
    await publish(...'abc');
    await pool.given(3);
    await dispatcher.stop(Promise.resolve());
    expect(queue.counts()).to.include({ waiting: 3, inFlight: 0, delayed: 0, dead: 0 });
    const again = await openInbox(queue).takeReady(10);
    expect(again.map(({ message, attempt, crashes }) => `${message.id}${attempt}${crashes}`)).to.deep.equal([
      'a10',
      'b10',
      'c10',
    ]);
    expect(lines).to.deep.equal([]);
  });

  it('may be asked for twice', async () => {
    const { dispatcher, pool, publish, queue } = start();
    await publish('a');
    await pool.given(1);
    await Promise.all([dispatcher.stop(Promise.resolve()), dispatcher.stop(never)]);
    await dispatcher.stop(never);
    expect(queue.counts()).to.include({ waiting: 1, inFlight: 0 });
  });
});

import { expect } from 'chai';
import type { PoolOutcome } from '../../main/tasks/worker-pool.ts';
import { startDispatching } from './dispatching.ts';
import { HandDrivenPool } from './hand-driven-pool.ts';

const returned: PoolOutcome = { ended: 'returned' };
const never = new Promise<void>(() => {});

const start = (threads = 2) => startDispatching(new HandDrivenPool(threads));

/** Whether a promise is fulfilled by now. */
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
    (await pool.started(1)).end(returned);
    await reach(({ completed }) => completed === 1);
    expect(await isDone(drained)).to.equal(false);
    await publish('c');
    (await pool.started(2)).end(returned);
    (await pool.started(3)).end(returned);
    await drained;
    expect(await reach(() => true)).to.include({ completed: 3, inFlight: 0, waiting: 0 });
  });

  it('waits for what will be tried again', async () => {
    const { dispatcher, pool, publish } = start();
    await publish('a');
    (await pool.started(1)).end({ ended: 'raised', reason: 'it failed', permanent: false });
    const drained = dispatcher.drain(never);
    const again = await pool.started(2);
    expect(await isDone(drained)).to.equal(false);
    again.end(returned);
    await drained;
  });

  it('waits no longer than its deadline', async () => {
    const { dispatcher, publish, pool, queue } = start();
    await publish('a');
    await pool.started(1);
    const deadline = Promise.withResolvers<void>();
    const drained = dispatcher.drain(deadline.promise);
    expect(await isDone(drained)).to.equal(false);
    deadline.resolve();
    await drained;
    expect(queue.counts().inFlight).to.equal(1);
  });
});

describe('Dispatcher, stopping', () => {
  it('waits for what runs, begins nothing more and takes the pool down', async () => {
    const { dispatcher, pool, publish, queue } = start();
    await publish(...'abcdefgh');
    const stopped = dispatcher.stop(never);
    pool.runs[0]?.end(returned);
    expect(await isDone(stopped)).to.equal(false);
    expect(pool.destroyed).to.equal(false);
    pool.runs[1]?.end(returned);
    await stopped;
    expect(pool.destroyed).to.equal(true);
    expect(pool.bodies).to.deep.equal(['a', 'b']);
    expect(queue.counts()).to.include({ completed: 2, waiting: 6, inFlight: 0, delayed: 0 });
  });

  it('leaves what comes afterwards in the queue', async () => {
    const { dispatcher, publish, queue, pool } = start();
    await dispatcher.stop(never);
    await publish('a');
    expect(queue.counts()).to.include({ waiting: 1, inFlight: 0 });
    expect(pool.runs).to.deep.equal([]);
  });

  it('gives back what it did not begin in the order it came, as if it had never been taken', async () => {
    const { dispatcher, pool, publish, queue } = start(1);
    await publish(...'abcdefg');
    const stopped = dispatcher.stop(never);
    pool.runs[0]?.end(returned);
    await stopped;
    const order: string[] = [];
    queue.consume(10, ({ message, attempt }) => order.push(`${message.id}${attempt}`));
    expect(order).to.deep.equal(['b1', 'c1', 'd1', 'e1', 'f1', 'g1']);
  });

  it('gives back what still runs at its deadline in the order it came, as not tried', async () => {
    const { dispatcher, pool, publish, queue, lines } = start(2);
    await publish(...'abc');
    await dispatcher.stop(Promise.resolve());
    expect(pool.destroyed).to.equal(true);
    expect(queue.counts()).to.include({ waiting: 3, inFlight: 0, delayed: 0, dead: 0 });
    const order: string[] = [];
    queue.consume(10, ({ message, attempt, crashes }) => order.push(`${message.id}${attempt}${crashes}`));
    expect(order).to.deep.equal(['a10', 'b10', 'c10']);
    expect(lines).to.deep.equal([]);
  });

  it('does not give back what its handler acknowledged before the deadline', async () => {
    const { dispatcher, pool, publish, queue } = start();
    await publish('a');
    (await pool.started(1)).settle('ack');
    await dispatcher.stop(Promise.resolve());
    expect(queue.counts()).to.include({ completed: 1, waiting: 0, inFlight: 0 });
  });

  it('may be asked for twice', async () => {
    const { dispatcher, publish, queue } = start();
    await publish('a');
    await Promise.all([dispatcher.stop(Promise.resolve()), dispatcher.stop(never)]);
    await dispatcher.stop(never);
    expect(queue.counts()).to.include({ waiting: 1, inFlight: 0 });
  });
});

import { expect } from 'chai';
import { never, raised, returned, startDispatching } from './dispatching.ts';
import { HandDrivenPool } from './hand-driven-pool.ts';

const cancelled = { ended: 'cancelled' } as const;

describe('Dispatcher, when a task is cancelled', () => {
  it('lets the pool withdraw a delivery that no worker has started, and takes the next', async () => {
    const { pool, queue, dispatcher, publish, reach } = startDispatching(new HandDrivenPool(1), { prefetch: 2 });
    await publish('a', 'b', 'c');
    await pool.given(2);
    expect(await queue.cancel('b')).to.equal('cancelled');
    expect((await pool.given(3)).delivery.message.id).to.equal('c');
    (await pool.given(1)).end(returned);
    expect(await reach(({ completed }) => completed === 1)).to.include({ accepted: 3, cancelled: 1 });
    expect(dispatcher.metrics).to.include({ completed: 1, cancelled: 0 });
  });

  it('settles a running delivery by its outcome', async () => {
    const { pool, queue, dispatcher, publish, reach, lines } = startDispatching(new HandDrivenPool());
    await publish('a', 'b');
    const [a, b] = [await pool.given(1), await pool.given(2)];
    for (const id of ['a', 'b']) expect(await queue.cancel(id)).to.equal('running');
    expect(pool.cancelled).to.deep.equal([a.delivery, b.delivery]);
    a.end(cancelled);
    b.end(returned);
    expect(await reach(({ inFlight }) => inFlight === 0)).to.include({ accepted: 2, completed: 1, cancelled: 1 });
    expect(dispatcher.metrics).to.include({ completed: 1, cancelled: 1 });
    expect(dispatcher.metrics.waits.cumulative().count).to.equal(2);
    expect(lines).to.deep.equal([]);
  });

  it('completes a task whose row is stored although its attempt was cancelled', async () => {
    const { pool, publish, reach } = startDispatching(new HandDrivenPool(), { isStored: () => true });
    await publish('a');
    (await pool.given(1)).end(cancelled);
    expect(await reach(({ completed }) => completed === 1)).to.include({ cancelled: 0, inFlight: 0 });
  });

  it('cancels a task without another attempt once its row can be looked up', async () => {
    let isAvailable = false;
    const isStored = () => {
      if (isAvailable) return false;
      isAvailable = true;
      throw new Error('away');
    };
    const { pool, publish, reach } = startDispatching(new HandDrivenPool(), { isStored });
    await publish('a');
    (await pool.given(1)).end(cancelled);
    expect(await reach((counts) => counts.cancelled === 1)).to.include({ inFlight: 0, delayed: 0 });
    expect(pool.runs).to.have.lengthOf(1);
  });

  it('cancels a task that waits for its retry', async () => {
    const { pool, queue, publish, reach } = startDispatching(new HandDrivenPool(), {
      decide: () => ({ kind: 'retry', delayMs: 60_000, reason: 'it failed', failure: 'transient' }),
    });
    await publish('a');
    (await pool.given(1)).end(raised);
    await reach(({ delayed }) => delayed === 1);
    expect(await queue.cancel('a')).to.equal('cancelled');
    expect(queue.counts()).to.include({ accepted: 1, cancelled: 1, delayed: 0 });
  });

  it('cancels running deliveries while it stops', async () => {
    const { pool, queue, dispatcher, publish } = startDispatching(new HandDrivenPool());
    await publish('a');
    const run = await pool.given(1);
    const stopping = dispatcher.stop(never);
    expect(await queue.cancel('a')).to.equal('running');
    run.end(cancelled);
    await stopping;
    expect(pool.cancelled).to.deep.equal([run.delivery]);
    expect(queue.counts()).to.include({ cancelled: 1, inFlight: 0 });
  });
});

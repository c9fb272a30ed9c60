import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { never, now, raised, returned, startDispatching } from './dispatching.ts';

describe('the dispatcher, before a stop,', () => {
  it('waits for a limited task that gets the place of one that runs, and for none that waits for a rate', async () => {
    const { pool, dispatcher, queue } = await startDispatching();
    await queue.setLimits('single', { concurrency: 1 }, 'api');
    await queue.setLimits('rated', { rate: { count: 1, ms: 60_000 } }, 'api');
    const body = '{"created_at":1790000000}';
    for (const id of 'ab') await queue.publish({ id, action: 'single', body });
    for (const id of 'cd') await queue.publish({ id, action: 'rated', body });
    const drained = dispatcher.drain(never);
    for (const number of [1, 2, 3]) (await pool.given(number)).end(returned);
    await drained;
    expect(pool.ids).to.equal('acb');
    expect(await queue.counts()).to.include({ completed: 3, limited: 1, inFlight: 0 });
  });

  it('waits neither for a retry that is due later, nor for the tasks of a paused queue', async () => {
    const { pool, dispatcher, publish, reach, queue } = await startDispatching();
    await publish('a');
    (await pool.given(1)).end(raised);
    await reach({ retrying: 1 });
    await dispatcher.drain(never);
    await queue.setPaused(true);
    await publish('b');
    await dispatcher.drain(never);
  });

  it('waits no longer than its deadline, also while it counts what is left, and after its abort time for no handler', async () => {
    const { pool, dispatcher, publish, queue } = await startDispatching();
    const { promise: deadline, resolve: expire } = Promise.withResolvers<void>();
    const counts = queue.counts.bind(queue);
    queue.counts = async () => {
      expire();
      await setImmediate();
      return { ...(await counts()), waiting: 1 };
    };
    await dispatcher.drain(deadline);
    await publish('a');
    await pool.given(1);
    await dispatcher.drain(setImmediate());
    await dispatcher.drain(never, now);
  });

  it('releases what still runs at its deadline, in order and uncharged', async () => {
    const { pool, dispatcher, publish, store } = await startDispatching();
    await publish('abcd');
    await pool.given(4);
    await dispatcher.stop(now);
    const { deliveries } = await store.take(10, true);
    expect(deliveries.map(({ id, attempt }) => `${id}${attempt}`)).to.deep.equal(['a1', 'b1', 'c1', 'd1']);
  });
});

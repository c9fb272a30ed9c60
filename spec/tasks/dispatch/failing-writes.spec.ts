import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import { numbers } from '../../store/stage.ts';
import { now, returned, startDispatching } from './dispatching.ts';

describe('the dispatcher, while ends cannot be written,', () => {
  it('keeps the outcome, takes nothing, and repeats the write after growing delays', async () => {
    const { faults, settled, pool, publish, clock, dispatcher, queue } = await startDispatching();
    faults.settle = new Error('disk full');
    await publish('abcdef');
    (await pool.given(1)).end(returned);
    await setImmediate();
    clock.advance(5);
    await setImmediate();
    expect([dispatcher.writeFailure, settled.length]).to.deep.equal(['disk full', 1]);
    for (const delayMs of [100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
      clock.advance(delayMs - 1);
      const before = settled.length;
      clock.advance(1);
      expect(settled).to.have.length(before + 1);
      await setImmediate();
    }
    (await pool.given(2)).end(returned);
    await setImmediate();
    expect(pool.ids).to.equal('abcdef');
    delete faults.settle;
    clock.advance(5000);
    await setImmediate();
    expect(dispatcher.writeFailure).to.equal(undefined);
    expect(await queue.counts()).to.include({ completed: 2 });
  });

  it('dead-letters only the task whose value the database refuses', async () => {
    const { run, reach, queue } = await startDispatching();
    for (const { delivery, end } of await run('abc'))
      end(delivery.id === 'b' ? { ended: 'returned', output: '"BAD"' } : returned);
    await reach({ completed: 2, dead: 1 });
    const [letter] = await queue.read(['b']);
    expect(letter).to.include({ reason: 'its result cannot be stored: invalid byte', isPermanent: true });
  });

  it('stops, and says whether it has written the end of each task, also of one that was acked just before', async () => {
    for (const [isAcked, isWritten] of [
      [true, true],
      [true, false],
      [false, false],
    ]) {
      const { faults, run, dispatcher, store } = await startDispatching();
      const [{ onAcknowledged, end }] = await run('a');
      if (!isWritten) faults.settle = new Error('disk full');
      if (isAcked) onAcknowledged('ack');
      end(returned);
      expect(await dispatcher.stop(now)).to.equal(isWritten);
      if (isWritten) expect(await store.reads.find('a')).to.have.nested.property('row.result', '{"output":1}');
    }
  });

  it('takes again a second after a take that failed', async () => {
    const { faults, pool, publish, clock, dispatcher } = await startDispatching();
    faults.take = new Error('the file is locked');
    await publish('a');
    await setImmediate();
    expect(dispatcher.writeFailure).to.equal('the file is locked');
    delete faults.take;
    clock.advance(1000);
    (await pool.given(1)).end(returned);
    expect(dispatcher.writeFailure).to.equal(undefined);
  });

  for (const [what, output, most] of [
    ['64 results', '1', 140],
    ['256 KiB of results', JSON.stringify('x'.repeat(60 * 1024)), 10],
  ] as const) {
    it(`takes nothing while more than ${what} wait behind a slow write`, async () => {
      const { store, pool, publish } = await startDispatching();
      const settle = store.settle.bind(store);
      const { promise, resolve } = Promise.withResolvers<void>();
      store.settle = async (settled) => promise.then(() => settle(settled));
      await publish(numbers(200));
      for (let turn = 0; turn < 300; turn += 1) {
        for (const { end } of pool.runs) end({ ended: 'returned', output });
        await setImmediate();
      }
      resolve();
      expect(pool.runs.length).to.be.at.most(most);
    });
  }
});

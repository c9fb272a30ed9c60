import { expect } from 'chai';
import { ValueRefused } from '../../../db/task-store.ts';
import { until } from '../../support/until.ts';
import { now, startDispatching } from './dispatching.ts';
import { returned } from './hand-driven-pool.ts';

/** Starts a dispatcher whose store fails to settle and to take while `state` has an error. */
async function startFailing() {
  const state: { settle?: Error; take?: Error; settles: number; isIdle: boolean } = { settles: 0, isIdle: false };
  const dispatching = await startDispatching(undefined, {}, (store) => {
    const [settle, take] = [store.settle.bind(store), store.take.bind(store)];
    store.settle = (settled) => {
      state.settles += 1;
      if (state.settle !== undefined) throw state.settle;
      // As PostgreSQL refuses NUL.
      const isBad = settled.some(({ settlement }) => 'result' in settlement && settlement.result.includes('BAD'));
      if (isBad) throw new ValueRefused('invalid byte');
      return settle(settled);
    };
    store.take = (max, isIdle) => {
      state.isIdle = isIdle;
      if (state.take !== undefined) throw state.take;
      return take(max, isIdle);
    };
  });
  return { state, ...dispatching };
}

describe('Dispatcher, while ends cannot be written', () => {
  it('keeps the outcome, takes nothing, and repeats the write after growing delays', async () => {
    const { state, pool, publish, clock, dispatcher, queue } = await startFailing();
    state.settle = new Error('disk full');
    await publish(...'abcdef');
    (await pool.given(1)).end(returned);
    await new Promise(setImmediate);
    clock.advance(5);
    await new Promise(setImmediate);
    expect(dispatcher.writeFailure).to.equal('disk full');
    expect(state.settles).to.equal(1);
    for (const delayMs of [100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
      clock.advance(delayMs - 1);
      const before = state.settles;
      clock.advance(1);
      expect(state.settles).to.equal(before + 1);
      await new Promise(setImmediate);
    }
    (await pool.given(2)).end(returned);
    await new Promise(setImmediate);
    expect(pool.ids).to.equal('abcdef');
    delete state.settle;
    clock.advance(5000);
    await new Promise(setImmediate);
    expect(dispatcher.writeFailure).to.equal(undefined);
    expect(await queue.counts()).to.include({ completed: 2 });
  });

  it('dead-letters only the task whose value the database refuses', async () => {
    const { pool, publish, reach, queue } = await startFailing();
    await publish('a', 'b', 'c');
    await pool.given(3);
    for (const [index, run] of pool.runs.entries()) run.end({ ended: 'returned', output: index === 1 ? '"BAD"' : '1' });
    await reach({ completed: 2, dead: 1 });
    const [letter] = await queue.read(['b']);
    expect(letter).to.include({ reason: 'its result cannot be stored: invalid byte', isPermanent: true });
  });

  it('takes again after the row of an acked task was refused, because a suspect waits until nothing is to be written', async () => {
    const { state, pool, publish, clock } = await startFailing();
    await publish('a');
    const run = await pool.given(1);
    state.isIdle = false;
    run.onAcknowledged('ack');
    run.end({ ended: 'returned', output: '"BAD"' });
    await until(() => {
      clock.advance(10);
      return state.isIdle;
    });
  });

  it('writes the row of a task that was acked just before the stop', async () => {
    const { pool, dispatcher, publish, store } = await startFailing();
    await publish('a');
    const run = await pool.given(1);
    run.onAcknowledged('ack');
    run.end(returned);
    expect(await dispatcher.stop(now)).to.equal(true);
    expect(await store.find('a')).to.have.nested.property('row.result', '{"output":1}');
  });

  for (const how of ['returned', 'acked, then returned']) {
    it(`stops although the end of a task that has ${how} cannot be written, and says so`, async () => {
      const { state, pool, publish, dispatcher } = await startFailing();
      await publish('a');
      const run = await pool.given(1);
      state.settle = new Error('disk full');
      if (how !== 'returned') run.onAcknowledged('ack');
      run.end(returned);
      expect(await dispatcher.stop(now)).to.equal(false);
    });
  }

  it('takes again a second after a take that failed', async () => {
    const { state, pool, publish, clock, dispatcher } = await startFailing();
    state.take = new Error('the file is locked');
    await publish('a');
    await new Promise(setImmediate);
    expect(dispatcher.writeFailure).to.equal('the file is locked');
    delete state.take;
    clock.advance(1000);
    (await pool.given(1)).end(returned);
    expect(dispatcher.writeFailure).to.equal(undefined);
  });
});

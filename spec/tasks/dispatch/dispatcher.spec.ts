import { expect } from 'chai';
import { listIn } from '../../store/store-calls.ts';
import { until } from '../../support/until.ts';
import { type Dispatching, now, startDispatching } from './dispatching.ts';
import { crashed, raised, raisedForGood, returned } from './hand-driven-pool.ts';

describe('Dispatcher', () => {
  it('has at most the prefetch in flight, and takes the next message for each that ends, before the end is written', async () => {
    const { pool, publish, queue } = await startDispatching();
    await publish(...'abcdefg');
    await pool.given(5);
    expect(await queue.counts()).to.include({ inFlight: 5, waiting: 2 });
    expect(pool.ids).to.equal('abcde');
    (await pool.given(4)).end(returned);
    await pool.given(6);
    (await pool.given(2)).end(returned);
    await pool.given(7);
    expect(pool.ids).to.equal('abcdefg');
    expect(await listIn(queue.store.rows)).to.deep.equal([]);
  });

  it('writes the ends of several tasks together after five milliseconds', async () => {
    const { pool, publish, queue, clock, events } = await startDispatching();
    await publish(...'abcdefgh');
    for (const number of [1, 2]) (await pool.given(number)).end(returned);
    await pool.given(7);
    clock.advance(4);
    expect(await listIn(queue.store.rows)).to.deep.equal([]);
    expect(events.map(({ event }) => event)).to.not.include('completed');
    clock.advance(1);
    expect((await listIn(queue.store.rows)).map(({ id }) => id)).to.deep.equal(['b', 'a']);
    expect(events.filter(({ event }) => event === 'completed')).to.have.length(2);
  });

  it('writes the ends once their results exceed 256 KiB, the rest in further turns', async () => {
    const { pool, publish, queue } = await startDispatching();
    await publish(...'abcde');
    await pool.given(5);
    const output = JSON.stringify('x'.repeat(200 * 1024));
    for (const run of pool.runs) run.end({ ended: 'returned', output });
    const completed: number[] = [];
    while (completed.at(-1) !== 5) {
      await new Promise(setImmediate);
      completed.push((await queue.counts()).completed);
    }
    for (const [turn, count] of completed.entries()) expect(count - (completed[turn - 1] ?? 0)).to.be.at.most(2);
  });

  it('decides by the retry policy of the action, and counts outcomes by kind and the wait of each task once', async () => {
    const actions = new Map([['d', { maxAttempts: 1 }]]);
    const { pool, publish, dispatcher, clock, reach } = await startDispatching(undefined, { actions });
    await publish('a', 'b', 'c', 'd');
    for (const [index, outcome] of [raised, crashed, raisedForGood, raised].entries()) {
      (await pool.given(index + 1)).end(outcome);
    }
    await reach({ retrying: 2, dead: 2 });
    clock.advance(60_000);
    for (const number of [5, 6]) (await pool.given(number)).end(returned);
    await reach({ completed: 2 });
    expect(pool.runs.slice(4).map(({ delivery }) => delivery.attempt)).to.deep.equal([2, 2]);
    const { metrics } = dispatcher;
    expect(metrics.completed).to.equal(2);
    expect(Object.fromEntries(metrics.retried)).to.deep.equal({ error: 1, crash: 1 });
    expect(Object.fromEntries(metrics.dead)).to.deep.equal({ permanent: 1, attempts: 1, crashes: 0 });
    expect(metrics.waits.cumulative().count).to.equal(4);
  });

  it('frees the place of a task that its handler has acked, once, and writes its row when the handler returns', async () => {
    const { pool, publish, queue, reach, dispatcher } = await startDispatching(undefined, { prefetch: 1 });
    await publish('a', 'b', 'c', 'd');
    const run = await pool.given(1);
    run.onAcknowledged('ack');
    (await pool.given(2)).end(returned);
    await reach({ completed: 2, inFlight: 1, waiting: 1 });
    expect((await listIn(queue.store.rows)).map(({ id }) => id)).to.deep.equal(['b']);
    run.end({ ended: 'returned', output: '"late"' });
    await new Promise(setImmediate);
    expect(await queue.counts()).to.include({ inFlight: 1, waiting: 1 });
    await dispatcher.stop(now);
    expect(await queue.store.rows.find('a')).to.include({ result: '{"output":"late"}' });
  });

  it('records the start of each attempt, and its end before the settlement is written, without a jump of the clock', async () => {
    const { pool, publish, queue, clock, reach, dispatcher } = await startDispatching();
    await publish('a', 'b');
    const [a, b] = [await pool.given(1), await pool.given(2)];
    a.onAcknowledged('ack');
    const startedAt = clock.now();
    clock.advance(20);
    b.end(raised);
    await new Promise(setImmediate);
    await reach({ retrying: 1 });
    clock.advance(startedAt + 100 - clock.now());
    clock.jump(60_000);
    a.end(returned);
    await new Promise(setImmediate);
    await dispatcher.stop(now);
    const times = { started_at: startedAt, ended_at: startedAt + 100, ran_ms: 100, waited_ms: 0, attempts: 1 };
    expect(await queue.store.rows.find('a', 'detailed')).to.include(times);
    const [failed] = (await queue.read(['b']))[0]?.history.attempts ?? [];
    expect(failed).to.include({ startedAt, endedAt: startedAt + 20 });
  });

  it('takes again when a handler ends that has nacked before, because a suspect waits until none runs', async () => {
    const idle: boolean[] = [];
    const { pool, publish } = await startDispatching(undefined, {}, (store) => {
      const take = store.take.bind(store);
      store.take = (max, isIdle) => {
        idle.push(isIdle);
        return take(max, isIdle);
      };
    });
    await publish('a');
    const run = await pool.given(1);
    run.onAcknowledged('nack');
    await until(() => idle.at(-1) === false);
    run.end(returned);
    await until(() => idle.at(-1) === true);
  });

  for (const [when, end] of [
    ['the queue was paused', ({ queue }) => queue.setPaused(true)],
    ['the stop began', ({ dispatcher }) => dispatcher.stop(now)],
  ] satisfies [string, (dispatching: Dispatching) => unknown][])
    it(`gives back what a take brings after ${when}`, async () => {
      let gate = Promise.resolve();
      const dispatching = await startDispatching(undefined, {}, (store) => {
        const { take } = store;
        store.take = async (max, isIdle) => {
          const taken = take.call(store, max, isIdle);
          await gate;
          return taken;
        };
      });
      const { pool, publish, queue, reach } = dispatching;
      const { promise, resolve } = Promise.withResolvers<void>();
      gate = promise;
      await publish('a');
      await reach({ inFlight: 1 });
      const ended = end(dispatching);
      await new Promise(setImmediate);
      resolve();
      await ended;
      // The clock stands still, so no timer writes the release.
      await until(async () => (await queue.counts()).waiting === 1);
      expect(pool.runs).to.deep.equal([]);
    });

  it('writes no row of a task whose ack came too late, because another node runs it', async () => {
    const kinds: string[] = [];
    const { pool, publish, dispatcher } = await startDispatching(undefined, {}, (store) => {
      store.settle = (settled) => {
        kinds.push(...settled.map(({ settlement }) => settlement.kind));
        return { effects: settled.map(() => 'late'), evicted: [] };
      };
    });
    await publish('a');
    const run = await pool.given(1);
    run.onAcknowledged('ack');
    run.end(returned);
    await dispatcher.stop(now);
    expect(kinds).to.deep.equal(['ack']);
  });

  it('takes as idle, and so perhaps a suspect, only once all settlements are written, even if a write fails', async () => {
    let failures = 1;
    let written = 0;
    const takes: { isIdle: boolean; written: number }[] = [];
    const { pool, publish, clock } = await startDispatching(undefined, {}, (store) => {
      const { take, settle } = store;
      store.take = (max, isIdle) => {
        takes.push({ isIdle, written });
        return take.call(store, max, isIdle);
      };
      store.settle = async (settled) => {
        if (failures-- > 0) throw new Error('disk I/O error');
        const result = await settle.call(store, settled);
        written += settled.length;
        return result;
      };
    });
    await publish('a', 'b');
    const runs = [await pool.given(1), await pool.given(2)];
    takes.length = 0;
    for (const run of runs) run.end(returned);
    await until(() => takes.length > 0);
    await until(() => {
      clock.advance(100);
      return takes.some(({ isIdle }) => isIdle);
    });
    expect(takes.find(({ isIdle }) => isIdle)).to.include({ written: 2 });
  });
});

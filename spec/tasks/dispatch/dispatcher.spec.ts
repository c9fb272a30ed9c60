import { expect } from 'chai';
import { listIn } from '../../store/store-calls.ts';
import { until } from '../../support/until.ts';
import { now, raised, returned, startDispatching } from './dispatching.ts';

describe('the dispatcher', () => {
  it('has at most the prefetch in flight, and takes the next message for each that ends, before the end is written', async () => {
    const { pool, publish, queue } = await startDispatching();
    await publish('abcdefg');
    await pool.given(5);
    expect(await queue.counts()).to.include({ inFlight: 5, waiting: 2 });
    expect(pool.ids).to.equal('abcde');
    (await pool.given(4)).end(returned);
    await pool.given(6);
    (await pool.given(2)).end(returned);
    await pool.given(7);
    expect(pool.ids).to.equal('abcdefg');
    expect(await listIn(queue.store.reads.rows)).to.deep.equal([]);
  });

  it('writes the ends once their results exceed 256 KiB, the rest in further turns', async () => {
    const { pool, publish, queue } = await startDispatching();
    await publish('abcde');
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
    const { pool, publish, dispatcher, clock, reach } = await startDispatching({ actions });
    await publish('abcd');
    const crashed = { ended: 'crashed', reason: 'thread died' } as const;
    for (const [index, outcome] of [raised, crashed, { ...raised, permanent: true }, raised].entries())
      (await pool.given(index + 1)).end(outcome);
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
    const { pool, publish, queue, reach, dispatcher } = await startDispatching({ prefetch: 1 });
    await publish('abcd');
    const run = await pool.given(1);
    run.onAcknowledged('ack');
    (await pool.given(2)).end(returned);
    await reach({ completed: 2, inFlight: 1, waiting: 1 });
    expect((await listIn(queue.store.reads.rows)).map(({ id }) => id)).to.deep.equal(['b']);
    run.end({ ended: 'returned', output: '"late"' });
    await new Promise(setImmediate);
    expect(await queue.counts()).to.include({ inFlight: 1, waiting: 1 });
    await dispatcher.stop(now);
    expect(await queue.store.reads.rows.find('a')).to.include({ result: '{"output":"late"}' });
  });

  it('records the start of each attempt, and its end before the settlement is written, without a jump of the clock', async () => {
    const { pool, publish, queue, clock, reach, dispatcher } = await startDispatching();
    await publish('ab');
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
    expect(await queue.store.reads.rows.find('a', 'detailed')).to.include(times);
    const [failed] = (await queue.read(['b']))[0]?.history.attempts ?? [];
    expect(failed).to.include({ startedAt, endedAt: startedAt + 20 });
  });

  for (const when of ['the queue was paused', 'the stop began'])
    it(`gives back what a take brings after ${when}`, async () => {
      const { pool, publish, queue, reach, dispatcher, faults } = await startDispatching();
      const { promise, resolve } = Promise.withResolvers<void>();
      faults.gate = promise;
      await publish('a');
      await reach({ inFlight: 1 });
      const ended = when === 'the stop began' ? dispatcher.stop(now) : queue.setPaused(true);
      await new Promise(setImmediate);
      resolve();
      await ended;
      // The clock stands still, so no timer writes the release.
      await until(async () => (await queue.counts()).waiting === 1);
      expect(pool.runs).to.deep.equal([]);
    });

  it('writes no row of a task whose ack came too late, because another node runs it', async () => {
    const { pool, publish, dispatcher, faults, settled } = await startDispatching();
    faults.isLate = true;
    await publish('a');
    const run = await pool.given(1);
    run.onAcknowledged('ack');
    run.end(returned);
    await dispatcher.stop(now);
    expect(settled).to.deep.equal(['ack']);
  });
});

describe('the dispatcher takes as idle, and so perhaps a suspect,', () => {
  it('when a handler ends that has nacked before', async () => {
    const { pool, publish, takes, isIdle } = await startDispatching();
    await publish('a');
    const run = await pool.given(1);
    run.onAcknowledged('nack');
    await until(() => takes.at(-1)?.written === 1);
    expect(isIdle()).to.equal(false);
    run.end(returned);
    await until(() => isIdle() === true);
  });

  it('once the row of an acked task was refused', async () => {
    const { pool, publish, clock, takes, isIdle } = await startDispatching();
    await publish('a');
    const run = await pool.given(1);
    takes.length = 0;
    run.onAcknowledged('ack');
    run.end({ ended: 'returned', output: '"BAD"' });
    await until(() => {
      clock.advance(10);
      return isIdle() === true;
    });
  });

  it('once all settlements are written, even if a write fails', async () => {
    const { pool, publish, clock, faults, takes, isIdle } = await startDispatching();
    await publish('ab');
    faults.settle = new Error('disk I/O error');
    const runs = [await pool.given(1), await pool.given(2)];
    takes.length = 0;
    for (const run of runs) run.end(returned);
    await until(() => isIdle() === false);
    clock.advance(5);
    await new Promise(setImmediate);
    delete faults.settle;
    await until(() => {
      clock.advance(100);
      return isIdle() === true;
    });
    expect(takes.find((take) => take.isIdle)).to.include({ written: 2 });
  });
});

describe('the dispatcher gives callbacks to the sender', () => {
  const URL = 'https://example.com/';

  it('up to a thousand beside the window, and others in it', async () => {
    const { sender, pool, publish, reach } = await startDispatching();
    for (let count = 1; count <= 1005; count += 1) {
      await publish([`${count}`], URL);
      (await pool.given(count)).end(returned);
    }
    await reach({ completed: 1005, inFlight: 1005 });
    await publish(['waits']);
    for (let turn = 0; turn < 5; turn += 1) await new Promise(setImmediate);
    expect(pool.runs).to.have.length(1005);
    sender.runs.at(-1)?.end(returned);
    expect((await pool.given(1006)).delivery.id).to.equal('waits');
  });

  it('each second while the window is full, and after each one that ends', async () => {
    const { sender, pool, queue, publish, clock } = await startDispatching();
    await publish('12345');
    await pool.given(5);
    await publish('abc', URL);
    const cancelled = async (id: string) => expect(await queue.cancel(id)).to.equal('cancelled');
    await cancelled('a');
    clock.advance(1000);
    await sender.given(1);
    await cancelled('b');
    await new Promise(setImmediate);
    expect(sender.runs).to.have.length(1);
    clock.advance(1000);
    const { end } = await sender.given(2);
    await cancelled('c');
    end(returned);
    expect((await sender.given(3)).delivery.callbackOf).to.equal('c');
    expect(pool.ids).to.equal('12345');
  });

  it('up to nine times', async () => {
    const { sender, pool, publish, reach, clock } = await startDispatching();
    await publish('a', URL);
    (await pool.given(1)).end(returned);
    for (let attempt = 1; attempt <= 9; attempt += 1) {
      (await sender.given(attempt)).end({ ...raised, retryAfterMs: 1000 } as typeof raised);
      await reach(attempt < 9 ? { retrying: 1 } : { dead: 1 });
      clock.advance(1000);
    }
  });

  it('cancels them there, and releases them at a stop', async () => {
    const { sender, pool, queue, publish, reach, dispatcher, store } = await startDispatching();
    await publish('ab', URL);
    for (const number of [1, 2]) (await pool.given(number)).end(returned);
    await reach({ completed: 2 });
    await sender.given(2);
    await queue.cancel(sender.runs[0]?.delivery.id ?? '');
    await reach({ cancelled: 1 });
    await dispatcher.stop(now);
    expect(await store.counts()).to.include({ waiting: 1, inFlight: 0 });
  });
});

import { mock } from 'node:test';
import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import { messageOf, numbers } from '../../store/stage.ts';
import { listIn } from '../../store/store-calls.ts';
import { until } from '../../support/until.ts';
import { never, now, raised, returned, startDispatching } from './dispatching.ts';

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
    expect([pool.ids, await listIn(queue.store.reads.rows)]).to.deep.equal(['abcdefg', []]);
  });

  it('writes the ends once their results exceed 256 KiB, the rest in further turns', async () => {
    const { run, queue } = await startDispatching();
    for (const { delivery, end } of await run('abcde'))
      end({ ended: 'returned', output: JSON.stringify('x'.repeat((delivery.id === 'a' ? 300 : 200) * 1024)) });
    const completed: number[] = [];
    while (completed.at(-1) !== 5) {
      await turn();
      completed.push((await queue.counts()).completed);
    }
    for (const [index, count] of completed.entries()) expect(count - (completed[index - 1] ?? 0)).to.be.at.most(2);
  });

  it('decides by the retry policy of the action, and counts outcomes by kind and the wait of each task once', async () => {
    const actions = new Map([['d', { maxAttempts: 1 }]]);
    const { pool, run, dispatcher, clock, reach } = await startDispatching({ actions });
    const crashed = { ended: 'crashed', reason: 'thread died' } as const;
    const outcomes = [raised, crashed, { ...raised, permanent: true }, raised];
    for (const [index, { end }] of (await run('abcd')).entries()) end(outcomes[index] ?? returned);
    await reach({ retrying: 2, dead: 2 });
    clock.advance(60_000);
    for (const number of [5, 6]) (await pool.given(number)).end(returned);
    await reach({ completed: 2 });
    expect(pool.runs.slice(4).map(({ delivery }) => delivery.attempt)).to.deep.equal([2, 2]);
    const { metrics } = dispatcher;
    expect(Object.fromEntries(metrics.retried)).to.deep.equal({ error: 1, crash: 1 });
    expect(Object.fromEntries(metrics.dead)).to.deep.equal({ permanent: 1, attempts: 1, crashes: 0 });
    expect([metrics.completed, metrics.waits.cumulative().count]).to.deep.equal([2, 4]);
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
    await turn();
    expect(await queue.counts()).to.include({ inFlight: 1, waiting: 1 });
    await dispatcher.stop(now);
    expect(await queue.store.reads.rows.find('a')).to.include({ result: '{"output":"late"}' });
  });

  it('records the start of each attempt, and its end before the settlement is written, without a jump of the clock', async () => {
    const { run, queue, clock, reach, dispatcher } = await startDispatching();
    const [a, b] = await run('ab');
    a.onAcknowledged('ack');
    const startedAt = clock.now();
    clock.advance(20);
    b?.end(raised);
    await turn();
    await reach({ retrying: 1 });
    clock.advance(startedAt + 100 - clock.now());
    clock.jump(60_000);
    a.end(returned);
    await turn();
    await dispatcher.stop(now);
    const times = { started_at: startedAt, ended_at: startedAt + 100, ran_ms: 100, waited_ms: 0, attempts: 1 };
    expect(await queue.store.reads.rows.find('a', 'detailed')).to.include(times);
    const [failed] = (await queue.read(['b']))[0]?.history.attempts ?? [];
    expect(failed).to.include({ startedAt, endedAt: startedAt + 20 });
  });

  it('takes nothing before its start, and looks each second for what another node has published without a word', async () => {
    const { dispatcher, publish, takes, pool, store, clock } = await startDispatching({ isStarted: false });
    Object.defineProperty(store, 'isShared', { value: true });
    await publish('a');
    await turn();
    expect(takes).to.deep.equal([]);
    dispatcher.start();
    await pool.given(1);
    await store.publish(messageOf('b'));
    clock.advance(999);
    await turn();
    expect(pool.ids).to.equal('a');
    clock.advance(1);
    await pool.given(2);
  });

  for (const when of ['the queue was paused', 'the stop began'])
    it(`gives back what a take brings after ${when}, and takes nothing beside it`, async () => {
      const { pool, publish, queue, reach, dispatcher, faults, takes } = await startDispatching();
      const { promise, resolve } = Promise.withResolvers<void>();
      faults.gate = promise;
      await publish('a');
      await reach({ inFlight: 1 });
      await publish('b');
      await turn();
      const ended = when === 'the stop began' ? dispatcher.stop(now) : queue.setPaused(true);
      await turn();
      resolve();
      await ended;
      // The clock stands still, so no timer writes the release.
      await until(async () => (await queue.counts()).waiting === 2);
      expect([pool.runs, takes.length]).to.deep.equal([[], 2]);
    });

  it('neither counts a task whose ack came too late, because another node runs it, nor writes its row', async () => {
    const { run, dispatcher, faults, settled } = await startDispatching();
    faults.isLate = true;
    const [{ onAcknowledged, end }] = await run('a');
    onAcknowledged('ack');
    end(returned);
    await dispatcher.stop(now);
    expect([settled, dispatcher.metrics.completed]).to.deep.equal([['ack'], 0]);
  });
});

describe('the dispatcher, before a stop,', () => {
  it('waits for a limited task that gets the place of one that runs, and for none that waits for a rate or a retry', async () => {
    const { pool, dispatcher, queue } = await startDispatching();
    await queue.setLimits('single', { concurrency: 1 }, 'api');
    await queue.setLimits('rated', { rate: { count: 1, ms: 60_000 } }, 'api');
    expect(pool.releases).to.equal(2);
    const body = '{"created_at":1790000000}';
    for (const id of 'ab') await queue.publish({ id, action: 'single', body });
    for (const id of 'cd') await queue.publish({ id, action: 'rated', body });
    await queue.publish({ id: 'e', action: 'failing', body });
    const drained = dispatcher.drain(never);
    (await pool.given(3)).end(raised);
    for (const number of [1, 2, 4]) (await pool.given(number)).end(returned);
    await drained;
    expect(pool.ids).to.equal('aceb');
    expect(await queue.counts()).to.include({ completed: 3, limited: 1, retrying: 1, inFlight: 0 });
  });

  it('waits no longer than its deadline, also while it counts what is left, and after its abort time or a pause for no handler', async () => {
    const { run, dispatcher, queue } = await startDispatching();
    const { promise: deadline, resolve: expire } = Promise.withResolvers<void>();
    const counts = queue.counts.bind(queue);
    queue.counts = async () => {
      expire();
      await turn();
      return { ...(await counts()), waiting: 1 };
    };
    await dispatcher.drain(deadline);
    await run('a');
    await dispatcher.drain(turn());
    await dispatcher.drain(never, now);
    const drained = dispatcher.drain(never);
    await queue.setPaused(true);
    await drained;
  });

  it('releases what still runs at its deadline, in order and uncharged', async () => {
    const { run, dispatcher, store } = await startDispatching();
    await run('abcd');
    await dispatcher.stop(now);
    const { deliveries } = await store.take(10, true);
    expect(deliveries.map(({ id, attempt }) => `${id}${attempt}`)).to.deep.equal(['a1', 'b1', 'c1', 'd1']);
  });
});

describe('the dispatcher, while ends cannot be written,', () => {
  it('keeps the outcome, takes nothing, and repeats the write after growing delays', async () => {
    const { faults, settled, pool, publish, clock, dispatcher, queue } = await startDispatching();
    faults.settle = new Error('disk full');
    await publish('abcdefghi');
    (await pool.given(1)).end(returned);
    await turn();
    clock.advance(5);
    await turn();
    expect([dispatcher.writeFailure, settled.length]).to.deep.equal(['disk full', 1]);
    for (const delayMs of [100, 200, 400, 800, 1600, 3200, 5000, 5000]) {
      clock.advance(delayMs - 1);
      const before = settled.length;
      clock.advance(1);
      expect(settled).to.have.length(before + 1);
      await turn();
    }
    (await pool.given(2)).end(returned);
    await turn();
    expect(pool.ids).to.equal('abcdef');
    delete faults.settle;
    clock.advance(5000);
    await turn();
    expect([dispatcher.writeFailure, (await queue.counts()).completed]).to.deep.equal([undefined, 2]);
    faults.settle = new Error('disk full');
    (await pool.given(3)).end(returned);
    await turn();
    clock.advance(5);
    await turn();
    const before = settled.length;
    clock.advance(100);
    expect(settled, 'after the shortest delay again').to.have.length(before + 1);
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
      delete faults.settle;
      expect(await dispatcher.stop(now)).to.equal(true);
      if (isWritten) expect(await store.reads.find('a')).to.have.nested.property('row.result', '{"output":1}');
    }
  });

  it('begins no write while another one is under way, which its stop repeats if it fails', async () => {
    const { run, clock, dispatcher, store } = await startDispatching();
    const { settle } = store;
    const { promise, reject } = Promise.withResolvers<never>();
    const { mock: writes } = mock.method(store, 'settle', () => promise);
    for (const { end } of await run('ab')) {
      end(returned);
      await turn();
      clock.advance(5);
    }
    expect(writes.callCount()).to.equal(1);
    store.settle = settle;
    const stopped = dispatcher.stop(now);
    await turn();
    reject(new Error('disk full'));
    expect(await stopped).to.equal(true);
  });

  it('takes again a second after a take that failed, and its stop waits for one that will fail', async () => {
    const { faults, pool, publish, clock, dispatcher } = await startDispatching();
    faults.take = new Error('the file is locked');
    await publish('a');
    await turn();
    expect(dispatcher.writeFailure).to.equal('the file is locked');
    delete faults.take;
    clock.advance(1000);
    (await pool.given(1)).end(returned);
    expect(dispatcher.writeFailure).to.equal(undefined);
    const { promise, resolve } = Promise.withResolvers<void>();
    Object.assign(faults, { take: new Error('the file is locked'), gate: promise });
    await publish('b');
    await turn();
    void turn().then(resolve);
    await dispatcher.stop(now);
    expect(clock.timers).to.equal(0);
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
      for (let count = 0; count < 300; count += 1) {
        for (const { end } of pool.runs) end({ ended: 'returned', output });
        await turn();
      }
      const { length } = pool.runs;
      expect(length).to.be.at.most(most);
      resolve();
      await until(() => pool.runs.length > length);
    });
  }
});

describe('the dispatcher takes as idle, and so perhaps a suspect,', () => {
  it('when a handler ends that has nacked before', async () => {
    const { run, takes, isIdle, settled } = await startDispatching();
    const [{ onAcknowledged, end }] = await run('a');
    onAcknowledged('nack');
    await until(() => takes.at(-1)?.written === 1);
    expect(isIdle()).to.equal(false);
    end(returned);
    await until(() => isIdle() === true);
    expect(settled, 'no row').to.deep.equal(['retry']);
  });

  it('once the row of an acked task was refused', async () => {
    const { run, clock, takes, isIdle } = await startDispatching();
    const [{ onAcknowledged, end }] = await run('a');
    takes.length = 0;
    onAcknowledged('ack');
    end({ ended: 'returned', output: '"BAD"' });
    await until(() => {
      clock.advance(10);
      return isIdle() === true;
    });
  });

  it('once all settlements are written, even if a write fails', async () => {
    const { run, clock, faults, takes, isIdle } = await startDispatching();
    const runs = await run('ab');
    faults.settle = new Error('disk I/O error');
    takes.length = 0;
    for (const { end } of runs) end(returned);
    await until(() => isIdle() === false);
    clock.advance(5);
    await turn();
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
    const { sender, pool, queue, publish, reach, clock } = await startDispatching();
    for (let count = 1; count <= 1005; count += 1) {
      await publish([`${count}`], URL);
      (await pool.given(count)).end(returned);
    }
    await reach({ completed: 1005, inFlight: 1005 });
    await publish('xy', URL);
    for (const id of 'xy') await queue.cancel(id);
    await publish(['waits']);
    const expectSent = async (number: number) => {
      clock.advance(1000);
      for (let count = 0; count < 5; count += 1) await turn();
      expect([pool.runs.length, sender.runs.length]).to.deep.equal([1005, number]);
    };
    await expectSent(1005);
    sender.runs[0]?.end(returned);
    await expectSent(1006);
    sender.runs[1004]?.end(returned);
    (await sender.given(1007)).end(returned);
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
    await turn();
    expect(sender.runs).to.have.length(1);
    clock.advance(1000);
    const { end } = await sender.given(2);
    await cancelled('c');
    end(returned);
    expect((await sender.given(3)).delivery.callbackOf).to.equal('c');
    expect(pool.ids).to.equal('12345');
  });

  it('cancels them there, counts as idle while it sends one, and releases them at a stop', async () => {
    const { sender, pool, queue, publish, reach, dispatcher, store, isIdle } = await startDispatching();
    await publish('ab', URL);
    for (const number of [1, 2]) (await pool.given(number)).end(returned);
    await sender.given(2);
    await queue.cancel(sender.runs[0]?.delivery.id ?? '');
    await reach({ cancelled: 1 });
    await publish('c');
    await pool.given(3);
    expect(isIdle()).to.equal(true);
    pool.runs[2]?.end(returned);
    await reach({ completed: 3 });
    const stop = sender.stop.bind(sender);
    sender.stop = () => stop(turn());
    await dispatcher.stop(now);
    expect(await store.counts()).to.include({ waiting: 1, inFlight: 0 });
  });
});

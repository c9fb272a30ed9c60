import { expect } from 'chai';
import { KeyReused, QueueFull, TAKES_PER_LONGEST } from '../../db/task-store.ts';
import { complete, discard, release, retry } from './settlements.ts';
import { errorOf, HOUR, idsOf, numbers, type QueueTests, reasonsOf, START, type TestQueue } from './stage.ts';

/**
 * Leaves waiting, limited, retrying and failed messages, a row, limits, a key and the pause. Returns what the
 * next store must have.
 */
export async function leaveEverything(queue: TestQueue) {
  const { store } = queue;
  await queue.discard('xy');
  await queue.publishKeyed('a', 'key');
  await queue.publish('bcde');
  const [a, b, c] = await queue.takeAll(3);
  await queue.settle(a, complete());
  await queue.settle(b, release);
  await queue.settle(c, retry(queue.now + HOUR));
  const limits = { concurrency: 9, perKey: { concurrency: 1, rate: { count: 3, ms: 1000 } } };
  await store.setLimits('mail', limits, 'api');
  await queue.publish('pq', { action: 'mail', limitKey: 'one', priority: 4 });
  await store.setPaused(true);
  const { bytes, oldest } = await store.counts();
  return { messages: await store.reads.read([...'xybcdepq']), limits: await store.limits(), bytes, oldest };
}

/** Expects what {@link leaveEverything} has left. Returns the waiting messages, which are taken. */
export async function expectEverything(queue: TestQueue, left: Awaited<ReturnType<typeof leaveEverything>>) {
  const { store } = queue;
  const { messages, limits, ...counts } = left;
  await queue.expectCounts({ dead: 2, waiting: 4, limited: 1, retrying: 1, inFlight: 0, ...counts });
  expect(await store.reads.read([...'xybcdepq'])).to.deep.equal(messages);
  expect(await store.limits()).to.deep.equal(limits);
  expect(await queue.stateOf('a')).to.equal('completed');
  expect(await queue.publishKeyed('z', 'key')).to.equal('a');
  expect(await queue.publishKeyed('z', 'key', 'y')).to.be.instanceOf(KeyReused);
  expect([await store.isPaused(), await queue.takeIds(9)]).to.deep.equal([true, '']);
  await store.setPaused(false);
  const taken = await queue.take(9);
  const numbers = taken.map(({ id, attempt, isSuspect }) => `${id} ${attempt} ${isSuspect}`);
  expect(numbers).to.deep.equal(['b 1 false', 'd 1 false', 'e 1 false', 'p 1 false']);
  return taken;
}

export function describeDelivering({ it }: QueueTests): void {
  it('taking returns each message once, in the order of acceptance, and no more than asked for', async (queue) => {
    await queue.publish('abc');
    queue.now += 1;
    await queue.publishTogether([...'defgh']);
    const [a, b, c] = await queue.takeAll(3);
    await queue.expectCounts({ inFlight: 3, waiting: 5 });
    await queue.settle(b, complete());
    expect(await queue.takeIds(1)).to.equal('d');
    await queue.settleAll([a, c], discard());
    await queue.publish('i');
    expect([await queue.takeIds(0), await queue.takeIds(4)]).to.deep.equal(['', 'efgh']);
    await queue.expectCounts({ inFlight: 5, waiting: 1, completed: 1, dead: 2 });
  });

  it('taking returns what was released again in its place, with no attempt counted', async (queue) => {
    await queue.publish('abcd');
    const [a, b, c] = await queue.takeAll(3);
    queue.now += 10;
    await queue.publish('e');
    await queue.settle(c, release);
    await queue.settle(a, release);
    await queue.settle(b, complete());
    await queue.expectCounts({ waiting: 4, inFlight: 0 });
    const again = await queue.takeAll(4);
    expect(idsOf(again)).to.equal('acde');
    expect(again[0]).to.deep.equal({ ...a, delivery: 2 });
  });

  it('taking gives a message to one of those who ask at the same time', async (queue) => {
    await queue.publish('abcdef');
    const taken = (await Promise.all([2, 2, 2, 2].map((max) => queue.takeIds(max)))).join('');
    expect([...taken, ...(await queue.takeIds(9))]).to.have.members([...'abcdef']);
  });

  for (const state of ['retrying', 'scheduled'] as const)
    it(`a ${state} message is delivered when it is due, and not before`, async (queue) => {
      await queue.publish('a', { runAt: state === 'scheduled' ? START + 60 : undefined });
      if (state === 'retrying') await queue.settle(await queue.next(), retry(START + 60));
      await queue.expectCounts({ accepted: 1, retrying: 0, scheduled: 0, waiting: 0, inFlight: 0, [state]: 1 });
      expect(await queue.message('a')).to.include({ state, runAt: START + 60, acceptedAt: START });
      expect(await queue.store.take(5, true)).to.deep.equal({ deliveries: [], nextRunAt: START + 60 });
      await queue.publish('b');
      // No time is returned while more messages may be due already.
      expect(await queue.store.take(1, true)).to.have.property('nextRunAt', undefined);
      expect(await queue.takenAt(START + 59)).to.equal('');
      queue.now = START + 60;
      const number = state === 'retrying' ? 2 : 1;
      expect(await queue.next()).to.include({ id: 'a', attempt: number, crashes: 0, delivery: number });
    });

  it('a retry counts attempts and crashes, and keeps times and reason of each failed attempt in every state', async (queue) => {
    const [first] = await queue.running('a');
    const times = { startedAt: START - 5, endedAt: START - 1 };
    await queue.settle(first, retry(START + 10, 'first'), times);
    const failure = { attempts: 1, reason: 'first' };
    expect(await queue.message('a')).to.include({ state: 'retrying', ...failure, runAt: START + 10 });
    queue.now += 10;
    const second = await queue.next();
    expect(second.history.attempts[0]).to.include({ ...times, reason: 'first' });
    expect(await queue.message('a')).to.include({ state: 'running', ...failure });
    queue.now += 10;
    await queue.settle(second, retry(queue.now, 'second', 'crash'));
    await queue.settle(await queue.next(), release);
    expect(reasonsOf(await queue.message('a'))).to.deep.equal(['first', 'second']);
    queue.now += 10;
    const third = await queue.next();
    expect(third).to.include({ attempt: 3, crashes: 1 });
    await queue.settle(third, discard('third'), { startedAt: queue.now + 5, endedAt: queue.now });
    const letter = await queue.message('a');
    expect(letter).to.include({ state: 'failed', attempts: 3, reason: 'third' });
    expect(reasonsOf(letter)).to.deep.equal(['first', 'second', 'third']);
    expect(letter.history.attempts.map(({ endedAt }) => endedAt - START)).to.deep.equal([-1, 20, 30]);
    expect(letter.history, 'whatever the clock says').to.include({ waitedMs: 0, ranMs: 4 });
  });

  it('a retry keeps the newest 20 attempts, each reason cut to 1000 characters, and the newest five stacks', async (queue) => {
    await queue.publish('a');
    for (let attempt = 1; attempt <= 22; attempt++) {
      const reason = `${attempt} ${'ä'.repeat(2000)}`;
      await queue.settle(await queue.next(), { ...retry(queue.now, reason), stack: `stack ${attempt}` });
    }
    await queue.settle(await queue.next(), discard('last'));
    const { attempts, ...letter } = await queue.message('a');
    const reasons = reasonsOf(letter);
    expect([attempts, reasons.length, reasons.at(-1)]).to.deep.equal([23, 20, 'last']);
    expect(reasons.at(-2)).to.equal(`22 ${'ä'.repeat(997)}`);
    expect(reasons[0]?.slice(0, 3)).to.equal('4 ä');
    const stacks = letter.history.attempts.map(({ stack }) => stack ?? 'none');
    expect(stacks.slice(-6).join()).to.equal('none,stack 19,stack 20,stack 21,stack 22,none');
  });

  it('a retry counts the bytes of reason and history', async (queue) => {
    const [a] = await queue.running('a');
    await queue.settle(a, retry(queue.now, '€'.repeat(100)));
    expect((await queue.store.counts()).bytes - a.body.length).to.be.within(600, 800);
    await queue.settle(await queue.next(), complete());
    await queue.expectCounts({ bytes: 0 });
  });

  it('a clock that is set back between two runs delays a retry by no more than a day, and no message that is scheduled, limited or waits', async (queue) => {
    await queue.store.setLimits('mail', { concurrency: 1 }, 'api');
    await queue.publish('pq', { action: 'mail', priority: 5 });
    await queue.publish('xab');
    await queue.settle(await queue.next(), retry(START + HOUR));
    queue.now += 1000;
    await queue.publish('c');
    await queue.publish('s', { runAt: START + 60_000 });
    await queue.settle(await queue.next(), release);
    queue.now = START - 1000 * HOUR;
    await queue.restart();
    await queue.publish('d');
    await queue.expectCounts({ waiting: 5, limited: 1, retrying: 1, scheduled: 1 });
    const { now } = queue;
    for (const [id, runAt] of Object.entries({ p: now, q: now, s: START + 60_000, x: now + 24 * HOUR }))
      expect((await queue.message(id)).runAt, id).to.equal(runAt);
    expect(await queue.takeIds(5)).to.equal('abcdp');
  });

  for (const limit of ['rate', 'perKey'] as const)
    it(`a clock that is set back between two runs delays a start by no more than the period of a ${limit === 'rate' ? limit : 'rate of its key'}`, async (queue) => {
      const rate = { count: 1, ms: 1000 };
      await queue.store.setLimits('sum', limit === 'rate' ? { rate } : { perKey: { rate } }, 'api');
      await queue.publish('ab', { limitKey: 'key' });
      await queue.settle(await queue.next(), complete());
      queue.now = START - HOUR;
      await queue.restart();
      expect(await queue.takenAt(queue.now + 999)).to.equal('');
      expect(await queue.takenAt(queue.now + 1)).to.equal('b');
    });

  it('a scheduled message is delivered in the order in which messages became due', async (queue) => {
    expect(await queue.takeIds(1)).to.equal('');
    await queue.publish('cd', { runAt: START + 20 });
    const message = { id: 'b', action: 'sum', body: '{}', runAt: START + 10 };
    await queue.store.publishAll([{ message, key: undefined }]);
    queue.now = START + 9;
    await queue.publish('a');
    queue.now = START + 10;
    const all = await queue.takeAll(2);
    queue.now = START + 20;
    all.push(await queue.next());
    await queue.publish('e');
    all.push(...(await queue.takeAll(2)));
    expect(all.map(({ id, dueAt }) => `${id} ${dueAt - START}`)).to.deep.equal(['a 9', 'b 10', 'c 20', 'd 20', 'e 20']);
    await queue.expectCounts({ scheduled: 0, waiting: 0, inFlight: 5 });
  });

  it('a scheduled message begins to wait in slices of those that are due, so that a take is short', async (queue) => {
    expect(await queue.takeIds(1)).to.equal('');
    await queue.publishTogether(numbers(300), { runAt: START + 10 });
    await queue.publish('x', { runAt: START + 11 });
    queue.now += 10;
    for (const scheduled of [101, 1, 1]) {
      await queue.takeIds(1);
      await queue.expectCounts({ scheduled });
    }
  });

  const runNow = async ({ store }: TestQueue, id: string) => {
    const told: string[] = [];
    return [await store.runNow(id, (task) => told.push(`${task.id} ${task.action}`)), ...told];
  };

  it('running now makes a scheduled or retrying message due, behind those that wait', async (queue) => {
    await queue.settleAll(await queue.running('a'), retry(START + 60_000));
    await queue.publish('b', { runAt: START + 60_000 });
    await queue.publish('cd');
    queue.now += 5;
    expect(await runNow(queue, 'b')).to.deep.equal(['due', 'b sum']);
    queue.now += 5;
    expect(await runNow(queue, 'a')).to.deep.equal(['due', 'a sum']);
    await queue.expectCounts({ scheduled: 0, retrying: 0, waiting: 4 });
    const taken = (await queue.takeAll(4)).map(({ id, attempt, dueAt }) => `${id} ${attempt} ${dueAt - START}`);
    expect(taken).to.deep.equal(['c 1 0', 'd 1 0', 'b 1 5', 'a 2 10']);
  });

  it('running now changes nothing if the message waits, runs or has ended, or is unknown', async (queue) => {
    await queue.discard('x');
    await queue.publish('abc');
    const [a, b] = await queue.takeAll(2);
    await queue.settle(a, complete());
    await queue.unchanged(async () => {
      expect([await runNow(queue, 'c'), await runNow(queue, 'b')]).to.deep.equal([['due'], ['running']]);
      for (const id of ['a', 'x']) expect(await runNow(queue, id)).to.deep.equal(['ended']);
      for (const id of ['y', '', '\0', '__proto__']) expect(await runNow(queue, id)).to.deep.equal([undefined]);
    });
    expect(await queue.settle(b, complete())).to.equal('applied');
  });

  it('priorities are taken first, and within one in the order in which messages became due', async (queue) => {
    for (const [id, priority] of Object.entries({ e: 5, c: 3, a: 1, f: 5, b: 1 }))
      await queue.publish(id, { priority });
    await queue.publish('d');
    expect([await queue.takeIds(2), await queue.takeIds(5)]).to.deep.equal(['ab', 'cdef']);
    expect(await queue.message('e')).to.include({ priority: 5 });
    expect(await queue.message('d')).to.include({ priority: 3 });
  });

  it('priorities stay with a message over a release, a retry, a redrive and a restart', async (queue) => {
    await queue.publish('a', { priority: 1 });
    await queue.settle(await queue.next(), release);
    await queue.settle(await queue.next(), retry(queue.now));
    await queue.settle(await queue.next(), discard());
    queue.now += 1;
    await queue.publish('b');
    queue.now += 1;
    await queue.redrive({ all: true });
    await queue.restart();
    expect(await queue.takeIds(5)).to.equal('ab');
  });

  it('priorities let none wait for ever: one message of ten is the one that has waited longest', async (queue) => {
    await queue.publish(['last'], { priority: 5 });
    queue.now += 1;
    for (const id of numbers(3 * TAKES_PER_LONGEST)) await queue.publish([id], { priority: 1 + (Number(id) % 4) });
    const taken: string[] = [];
    while (!taken.includes('last')) taken.push(...(await queue.takeAll(3)).map(({ id }) => id));
    expect(taken.length).to.be.within(TAKES_PER_LONGEST - 2, TAKES_PER_LONGEST + 2);
  });

  it('a paused queue accepts messages and delivers none, and delivers all in order once it is resumed', async (queue) => {
    const { store } = queue;
    const pause = async () => [await store.isPaused(), await store.reads.pausedAt()];
    expect(await pause()).to.deep.equal([false, undefined]);
    await queue.running('a');
    await queue.publish('b');
    for (const at of [5_000, 6_000]) await store.setPaused(true, at);
    expect(await pause()).to.deep.equal([true, 5_000]);
    await queue.publish('cd');
    expect(await store.take(5, true)).to.deep.equal({ deliveries: [], nextRunAt: undefined });
    await queue.expectCounts({ accepted: 4, inFlight: 1, waiting: 3 });
    for (const isPaused of [false, false]) await store.setPaused(isPaused);
    expect(await pause()).to.deep.equal([false, undefined]);
    expect(await queue.takeIds(5)).to.equal('bcd');
  });

  it('a paused queue settles what is in flight, and keeps what is released or due again', async (queue) => {
    const [a, b, c] = await queue.running('abc');
    await queue.store.setPaused(true);
    await queue.settleAll([a], complete());
    await queue.settleAll([b], retry(queue.now + 5));
    await queue.settleAll([c], release);
    expect(await queue.takenAt(queue.now + 5)).to.equal('');
    await queue.expectCounts({ completed: 1, waiting: 2, inFlight: 0 });
    await queue.store.setPaused(false);
    expect(await queue.takeIds(5)).to.equal('cb');
  });

  it('a closed queue has written what was accepted, refuses messages, delivers none, and may be closed again', async (queue) => {
    const submitted = Promise.allSettled([...'abc'].map((id) => queue.publish(id)));
    expect(await queue.store.close()).to.equal(true);
    expect(await errorOf(() => queue.publish('d'))).to.not.be.instanceOf(QueueFull);
    expect(await queue.takeIds(5).catch(() => '')).to.equal('');
    await queue.restart();
    const accepted = (await submitted).filter(({ status }) => status === 'fulfilled').length;
    await queue.expectCounts({ accepted, waiting: accepted });
  });

  it('a closed queue leaves everything to the next one, once', async (queue) => {
    const left = await leaveEverything(queue);
    await queue.restart();
    await queue.settleAll(await expectEverything(queue, left), complete());
    await queue.settle(await queue.next(), complete());
    await queue.cancel('c');
    await queue.restart();
    expect(await queue.store.isPaused()).to.equal(false);
    await queue.expectCounts({ dead: 2, waiting: 0, limited: 0, retrying: 0, bytes: 0 });
  });
}

import { expect } from 'chai';
import { type Attempt, NO_ATTEMPTS, PROCESS_DIED } from '../../db/attempt-history.ts';
import { EXHAUSTED } from '../../db/message-change.ts';
import type { Delivery, Settlement } from '../../db/task-store.ts';
import { ack, cancel, complete, discard, output, release, retry, row } from './settlements.ts';
import { HOUR, idsOf, type QueueTests, START, type TestQueue } from './stage.ts';

const EVERY: readonly Settlement[] = [complete('late'), ack, retry(START + HOUR), discard(), release, cancel];

async function expectLate(queue: TestQueue, delivery: Delivery): Promise<void> {
  const before = await queue.store.reads.find(delivery.id);
  await queue.unchanged(async () => {
    for (const late of EVERY) expect(await queue.settle(delivery, late), late.kind).to.equal('late');
  });
  expect(await queue.store.reads.find(delivery.id)).to.deep.equal(before);
}

/** Takes all messages and lets the process die, `times` times. Suspects are taken alone. */
async function dieWithAll(queue: TestQueue, times: number): Promise<void> {
  for (let time = 0; time < times; time++) {
    await queue.take(100, true);
    await queue.die();
  }
}

export function describeSettling({ it, driver: { isDurable } }: QueueTests): void {
  it('settling writes the row of a completed task and deletes its message', async (queue) => {
    const [a] = await queue.running('a');
    queue.now += 7999;
    expect(await queue.resultOf('a')).to.equal(undefined);
    expect(await queue.settle(a, complete('x'))).to.equal('applied');
    const times = { created_at: START / 1000, processed_at: START / 1000 + 7 };
    const row = { id: 'a', payload: a.body, status: 'completed', result: output('x'), ...times };
    expect({ ...(await queue.store.reads.rows.find('a')) }).to.deep.equal(row);
    await queue.expectEnded({ accepted: 1, completed: 1 });
  });

  it('settling of several deliveries has the effect of each, in order', async (queue) => {
    await queue.publish('abcdefg');
    const [a, b, c, d, e, f] = await queue.takeAll(6);
    await queue.settle(f, release);
    const again = await queue.next();
    await queue.cancel('e');
    const { effects, evicted } = await queue.store.settle([
      { delivery: a, settlement: complete() },
      { delivery: b, settlement: retry(queue.now + 5) },
      { delivery: f, settlement: complete() },
      { delivery: again, settlement: release },
      { delivery: c, settlement: discard() },
      { delivery: e, settlement: retry(queue.now + 5) },
      { delivery: d, settlement: ack },
      { delivery: a, settlement: complete(2) },
    ]);
    expect(effects).to.deep.equal(['applied', 'applied', 'late', 'applied', 'applied', 'cancelled', 'applied', 'late']);
    expect(evicted).to.deep.equal([]);
    expect(await queue.resultOf('a')).to.equal(output(1));
    await queue.expectCounts({ completed: 2, retrying: 1, dead: 1, waiting: 2, cancelled: 1, retried: 1, failed: 1 });
    expect(await queue.store.settle([])).to.deep.equal({ effects: [], evicted: [] });
  });

  for (const first of EVERY)
    it(`settling has an effect once, whatever is settled afterwards: ${first.kind}`, async (queue) => {
      const [a] = await queue.running('a');
      expect(await queue.settle(a, first)).to.equal('applied');
      await expectLate(queue, a);
    });

  it('settling of a delivery does nothing to the next life of its dead letter, nor does its cancellation', async (queue) => {
    const [former] = await queue.running('a');
    await queue.cancel('a');
    await queue.settle(former, discard());
    await queue.redrive({ all: true });
    await expectLate(queue, former);
    const present = await queue.next();
    await expectLate(queue, former);
    expect(await queue.store.cancelRequests(['a'])).to.deep.equal([]);
    expect(await queue.located({ state: 'running' })).to.equal('a');
    expect(await queue.settle(present, retry(queue.now))).to.equal('applied');
    expect(await queue.takeIds(1)).to.equal('a');
  });

  it('settling of an acked message counts it as completed once, and its row follows', async (queue) => {
    const [a] = await queue.running('a');
    await queue.settle(a, ack);
    expect([await queue.stateOf('a'), await queue.cancel('a')]).to.deep.equal([undefined, undefined]);
    expect(await queue.settle(a, row('later'))).to.equal('applied');
    expect([await queue.stateOf('a'), await queue.resultOf('a')]).to.deep.equal(['completed', output('later')]);
    await queue.expectEnded({ accepted: 1, completed: 1 });
  });

  it('settling takes reasons of any characters', async (queue) => {
    const [a, b] = await queue.running('ab');
    const reason = 'ä\u0000 \ud800 😀';
    expect(await queue.settle(a, retry(queue.now + 1, reason))).to.equal('applied');
    expect(await queue.settle(b, discard(reason))).to.equal('applied');
    for (const id of 'ab') expect((await queue.message(id)).reason).to.match(/^ä.* .+ 😀$/su);
    expect(await queue.located({ state: 'failed' })).to.equal('b');
  });

  it('the rows of completed tasks tell how long the task waited and ran, and its attempts, also after an early ack', async (queue) => {
    const find = (id: string) => queue.store.reads.rows.find(id, 'detailed');
    const timesOf = (startedAt: number) => ({ startedAt: START + startedAt, endedAt: START + startedAt + 7 });
    await queue.publish('a', { runAt: START + 1000 });
    const [early] = await queue.running('b');
    await queue.settle(early, ack);
    await queue.settle(early, row('b'), timesOf(2));
    const last = { started_at: START + 2, ended_at: START + 9 };
    expect(await find('b')).to.include({ attempts: 1, waited_ms: 2, ran_ms: 7, ...last, history: null });
    queue.now += 2000;
    await queue.settle(await queue.next(), retry(queue.now, 'no'), timesOf(1010));
    await queue.settle(await queue.next(), retry(queue.now, 'lost'), { endedAt: START + 1120 });
    await queue.settle(await queue.next(), complete(), timesOf(1500));
    const { history, ...a } = { ...(await find('a')) };
    const times = { started_at: START + 1500, ended_at: START + 1507 };
    expect(a).to.include({ attempts: 3, waited_ms: 10, ran_ms: 14, ...times });
    const lost = { startedAt: null, endedAt: START + 1120, reason: 'lost' };
    const failed: Attempt[] = JSON.parse(history ?? '[]').map(({ node: _, ...attempt }: Attempt) => attempt);
    expect(failed).to.deep.equal([{ ...timesOf(1010), reason: 'no' }, lost]);
  });

  it('cancelling deletes a message that waits or is due later, leaves the others in order, and keeps its key', async (queue) => {
    await queue.publish('abcd');
    await queue.settle(await queue.next(), retry(queue.now + 20));
    await queue.publishKeyed('k', 'key');
    for (const id of 'bak') expect(await queue.store.cancel(id)).to.deep.equal({ outcome: 'cancelled', action: 'sum' });
    expect(await queue.stateOf('b')).to.equal(undefined);
    expect(await queue.publishKeyed('l', 'key')).to.equal('k');
    await queue.expectCounts({ accepted: 5, cancelled: 3, waiting: 2 });
    expect(await queue.takenAt(queue.now + HOUR)).to.equal('cd');
  });

  it('cancelling of a running message is requested, each time it is asked for, and its owner can look it up', async (queue) => {
    await queue.running('ab');
    await queue.publish('c');
    const requests = async (...ids: string[]) => [...(await queue.store.cancelRequests(ids))];
    expect(await requests('a', 'b', 'c', 'x', '__proto__')).to.deep.equal([]);
    for (let time = 0; time < 2; time++)
      expect(await queue.store.cancel('a')).to.deep.equal({ outcome: 'requested', action: 'sum' });
    expect([await requests('a', 'b', 'c', 'x'), await requests()]).to.deep.equal([['a'], []]);
    expect(await queue.stateOf('a')).to.equal('running');
    await queue.expectCounts({ inFlight: 2, cancelled: 0, waiting: 1 });
  });

  for (const [settlement, effect, counted] of [
    [cancel, 'applied', 'cancelled'],
    [release, 'cancelled', 'cancelled'],
    [retry(0), 'cancelled', 'cancelled'],
    [complete(), 'applied', 'completed'],
    [ack, 'applied', 'completed'],
    [discard(), 'applied', 'dead'],
  ] as const)
    it(`cancelling of a running message ends as ${counted} if its attempt ends with ${settlement.kind}`, async (queue) => {
      const [a] = await queue.running('a');
      await queue.cancel('a');
      expect(await queue.settle(a, settlement)).to.equal(effect);
      await queue.expectEnded({ accepted: 1, [counted]: 1 });
      expect(await queue.takeIds(1)).to.equal('');
    });

  it('cancelling says what has ended, and nothing of what was cancelled or is unknown', async (queue) => {
    await queue.discard('b');
    await queue.publish('ac');
    await queue.settle(await queue.next(), complete());
    expect(await queue.cancel('c')).to.equal('cancelled');
    for (const id of 'ab') expect(await queue.cancel(id), id).to.equal('ended');
    for (const id of ['c', 'x', '', '__proto__']) expect(await queue.store.cancel(id), id).to.equal(undefined);
    await queue.expectCounts({ accepted: 3, completed: 1, dead: 1, cancelled: 1, waiting: 0 });
  });

  it('cancelling at the same time as a take has one of two ends', async (queue) => {
    await queue.publish('abcdefgh');
    const results = await Promise.all([...'abcdefgh'].map((id) => Promise.all([queue.cancel(id), queue.takeIds(1)])));
    const taken = results.map(([, ids]) => ids).join('');
    for (const [index, id] of [...'abcdefgh'].entries())
      expect(results[index]?.[0], id).to.equal(taken.includes(id) ? 'requested' : 'cancelled');
  });

  if (!isDurable) return;

  it('after the death of its process, the store delivers what was running again, in its place, charges no attempt, and takes no settlement of the process before', async (queue) => {
    await queue.publish('abc');
    await queue.settle(await queue.next(), retry(queue.now));
    const former = await queue.takeAll(3);
    expect(idsOf(former)).to.equal('bca');
    await queue.die();
    await expectLate(queue, former[0]);
    const [b, c, a] = await queue.takeAll(3);
    expect(a).to.deep.include({ id: 'a', attempt: 2, crashes: 0, isSuspect: false, delivery: 3 });
    expect(b).to.deep.include({ id: 'b', attempt: 1, crashes: 0, isSuspect: false, history: NO_ATTEMPTS });
    expect(c).to.deep.include({ id: 'c', attempt: 1, crashes: 0, isSuspect: false, delivery: 2 });
    await expectLate(queue, former[0]);
    expect(await queue.settle(b, complete())).to.equal('applied');
  });

  it('after two deaths, the store takes a suspect in an empty window, alone, and nothing beside it', async (queue) => {
    await queue.publish('ab');
    await dieWithAll(queue, 2);
    await queue.publish('c');
    await queue.expectCounts({ waiting: 3 });
    const c = await queue.next();
    expect([c.id, await queue.takeIds(5)]).to.deep.equal(['c', '']);
    await queue.settle(c, complete());
    for (const id of 'ab') {
      expect(await queue.takeIds(5, false)).to.equal('');
      const [suspect, ...others] = await queue.take(5, true);
      expect(suspect).to.include({ id, isSuspect: true, attempt: 1, crashes: 0 });
      expect(others).to.deep.equal([]);
      await queue.publish(id === 'a' ? 'd' : 'e');
      for (const isIdle of [false, true]) expect(await queue.takeIds(5, isIdle)).to.equal('');
      await queue.settle(suspect as Delivery, complete());
      await queue.settle(await queue.next(), complete());
    }
    await queue.expectCounts({ waiting: 0, inFlight: 0 });
  });

  it('after two deaths, the store takes a suspect that was limited, once its limit has room', async (queue) => {
    await queue.publish('ab');
    await dieWithAll(queue, 2);
    await queue.store.setLimits('sum', { concurrency: 1 }, 'api');
    await queue.restart();
    const a = await queue.next(true);
    expect(await queue.takeIds(5, true)).to.equal('');
    await queue.settle(a, complete());
    expect([a.id, await queue.takeIds(5, true)]).to.deep.equal(['a', 'b']);
  });

  it('after two deaths, the store takes a suspect in the end although others are due all the time, but not while it is paused', async (queue) => {
    await queue.publish('ac');
    await dieWithAll(queue, 2);
    // One of ten is the one that has waited longest, which is no suspect.
    await queue.running('0123456789');
    await queue.publish('b');
    queue.now += 10_000;
    // The window has to be drained first.
    expect(await queue.takeIds(5, false)).to.equal('');
    await queue.store.setPaused(true);
    expect(await queue.takeIds(5, true)).to.equal('');
    await queue.store.setPaused(false);
    const a = await queue.next(true);
    await queue.settle(a, complete());
    queue.now += 9999;
    expect([a.id, await queue.takeIds(5, true)]).to.deep.equal(['a', 'b']);
    await queue.publish('d');
    queue.now += 1;
    expect(await queue.takeIds(5, true)).to.equal('c');
  });

  it('after two deaths, the store suspects a message until an attempt has ended, even if it is released', async (queue) => {
    await queue.publish('a');
    await dieWithAll(queue, 2);
    await queue.settle(await queue.next(true), release);
    await queue.restart();
    const again = await queue.next(true);
    expect(again.isSuspect).to.equal(true);
    await queue.settle(again, retry(queue.now + 5));
    expect(await queue.takeIds(5, true)).to.equal('');
    queue.now += 5;
    expect((await queue.next()).isSuspect).to.equal(false);
    await queue.publish('b');
    expect(await queue.takeIds(5), 'beside it').to.equal('b');
    // Its deaths are counted from the beginning again.
    await queue.die();
    expect(await queue.next()).to.include({ isSuspect: false, attempt: 2 });
  });

  it('after two deaths, the store makes a message a dead letter with its third death, and charges a crash', async (queue) => {
    await queue.settleAll(await queue.running('a'), retry(queue.now, 'no'));
    await queue.publish('b');
    queue.now += 100;
    await dieWithAll(queue, 3);
    const letter = await queue.message('a');
    expect(letter).to.include({ attempts: 2, reason: EXHAUSTED, isPermanent: false, failedAt: queue.now });
    expect(letter.history.attempts.map(({ reason }) => reason)).to.deep.equal(['no', PROCESS_DIED]);
    expect(letter.history.attempts[1]).to.include({ endedAt: queue.now });
    expect(await queue.letterIds()).to.equal('a');
    await queue.expectCounts({ dead: 1, waiting: 1, inFlight: 0 });
    await queue.redrive({ all: true });
    expect(await queue.next()).to.include({ id: 'a', isSuspect: false, attempt: 1, crashes: 0 });
  });
}

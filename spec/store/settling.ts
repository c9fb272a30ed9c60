import { expect } from 'chai';
import { type Attempt, NO_ATTEMPTS, PROCESS_DIED } from '../../db/attempt-history.ts';
import type { Delivery, Settlement } from '../../db/task-store.ts';
import { ack, cancel, complete, discard, output, release, retry, row } from './settlements.ts';
import { type Driver, HOUR, messageOf, type QueueTests, reasonsOf, START, type TestQueue } from './stage.ts';

const EVERY: readonly Settlement[] = [complete('late'), ack, retry(START + HOUR), discard(), release, cancel];

/** Expects that no settlement of `delivery` has an effect. */
async function expectLate(queue: TestQueue, delivery: Delivery): Promise<void> {
  const before = await queue.store.reads.find(delivery.id);
  await queue.unchanged(async () => {
    for (const late of EVERY) expect(await queue.settle(delivery, late), late.kind).to.equal('late');
  });
  expect(await queue.store.reads.find(delivery.id)).to.deep.equal(before);
}

/** No less than the longest time for which a suspect waits while other messages are due. */
const SUSPECT_WAIT_MS = 10_000;

/** Takes all messages and lets the process die, `times` times. Suspects are taken alone. */
async function dieWithAll(queue: TestQueue, times: number): Promise<void> {
  for (let time = 0; time < times; time++) {
    await queue.take(100, true);
    await queue.die();
  }
}

/** Conformance specs of the ends of deliveries: settlements, cancellations and deaths of processes. */
export function describeSettling({ it }: QueueTests, { isDurable }: Pick<Driver, 'isDurable'>): void {
  describe('settling', () => {
    it('writes the row of a completed task and deletes its message', async (queue) => {
      await queue.publish('a');
      queue.now += 7999;
      const { body, ...delivery } = await queue.next();
      expect(await queue.resultOf('a')).to.equal(undefined);
      expect(await queue.settle({ body, ...delivery }, complete('x'))).to.equal('applied');
      const times = { created_at: START / 1000, processed_at: START / 1000 + 7 };
      const expected = { id: 'a', payload: body, status: 'completed', result: output('x'), ...times };
      expect({ row: await queue.store.reads.rows.find('a') }).to.deep.equal({ row: expected });
      await queue.expectEnded({ accepted: 1, completed: 1 });
    });

    it('of several deliveries has the effect of each, in order', async (queue) => {
      await queue.publish('abcdefg');
      const [a, b, c, d, e, f] = await queue.takeAll(6);
      await queue.settle(f, release);
      await queue.cancel('e');
      const { effects, evicted } = await queue.store.settle([
        { delivery: a, settlement: complete() },
        { delivery: b, settlement: retry(queue.now + 5) },
        { delivery: f, settlement: complete() },
        { delivery: c, settlement: discard() },
        { delivery: e, settlement: retry(queue.now + 5) },
        { delivery: d, settlement: ack },
        { delivery: a, settlement: complete(2) },
      ]);
      expect(effects).to.deep.equal(['applied', 'applied', 'late', 'applied', 'cancelled', 'applied', 'late']);
      expect(evicted).to.deep.equal([]);
      expect(await queue.resultOf('a')).to.equal(output(1));
      await queue.expectCounts({ accepted: 7, completed: 2, retrying: 1, dead: 1, waiting: 2, cancelled: 1 });
      await queue.expectCounts({ retried: 1, failed: 1 });
      expect(await queue.store.settle([])).to.deep.equal({ effects: [], evicted: [] });
    });

    for (const first of EVERY) {
      it(`has an effect once, whatever is settled afterwards: ${first.kind}`, async (queue) => {
        await queue.publish('a');
        const delivery = await queue.next();
        expect(await queue.settle(delivery, first)).to.equal('applied');
        await expectLate(queue, delivery);
      });
    }

    it('of a delivery does nothing to the next life of its dead letter, nor does its cancellation', async (queue) => {
      await queue.publish('a');
      const former = await queue.next();
      await queue.cancel('a');
      await queue.settle(former, discard());
      await queue.redrive({ all: true });
      await expectLate(queue, former);
      const present = await queue.next();
      await expectLate(queue, former);
      expect(await queue.store.cancelRequests(['a'])).to.deep.equal([]);
      expect(await queue.settle(present, retry(queue.now))).to.equal('applied');
      expect(await queue.takeIds(1)).to.equal('a');
    });

    it('of an acked message counts it as completed once, and its row follows', async (queue) => {
      await queue.publish('a');
      const delivery = await queue.next();
      await queue.settle(delivery, ack);
      expect(await queue.store.reads.find('a')).to.equal(undefined);
      expect(await queue.cancel('a')).to.equal(undefined);
      expect(await queue.settle(delivery, row('later'))).to.equal('applied');
      expect(await queue.stateOf('a')).to.equal('completed');
      expect(await queue.resultOf('a')).to.equal(output('later'));
      await queue.expectEnded({ accepted: 1, completed: 1 });
    });

    it('takes reasons of any characters', async (queue) => {
      const [a, b] = await queue.running('ab');
      const reason = 'ä\u0000 \ud800 😀';
      expect(await queue.settle(a, retry(queue.now + 1, reason))).to.equal('applied');
      expect(await queue.settle(b, discard(reason))).to.equal('applied');
      for (const id of 'ab') expect((await queue.message(id)).reason).to.match(/^ä.* .+ 😀$/su);
      expect(await queue.located({ state: 'failed' })).to.equal('b');
    });
  });

  describe('the rows of completed tasks', () => {
    /** Returns the columns of the attempts in a row, except the node. */
    const attemptsOf = async ({ store }: TestQueue, id: string) => {
      const { attempts, waited_ms, ran_ms, started_at, ended_at, history } =
        (await store.reads.rows.find(id, 'detailed')) ?? {};
      const failed: Attempt[] = JSON.parse(history ?? '[]');
      const reasons = failed.map(({ startedAt, endedAt, reason }) => [startedAt, endedAt, reason]);
      return [attempts, waited_ms, ran_ms, started_at, ended_at, reasons];
    };

    it('tell how long the task waited and ran, and its attempts, also after an early ack', async (queue) => {
      await queue.store.publish({ ...messageOf('a'), runAt: START + 1000 });
      await queue.publish('b');
      const b = await queue.next();
      await queue.settle(b, ack);
      await queue.settle(b, row('b'), { startedAt: START + 2, endedAt: START + 9 });
      expect(await attemptsOf(queue, 'b')).to.deep.equal([1, 2, 7, START + 2, START + 9, []]);
      queue.now += 2000;
      await queue.settle(await queue.next(), retry(queue.now, 'no'), {
        startedAt: START + 1010,
        endedAt: START + 1110,
      });
      await queue.settle(await queue.next(), retry(queue.now, 'lost'), { endedAt: START + 1120 });
      await queue.settle(await queue.next(), complete(), { startedAt: START + 1500, endedAt: START + 1501 });
      const failed = [
        [START + 1010, START + 1110, 'no'],
        [null, START + 1120, 'lost'],
      ];
      expect(await attemptsOf(queue, 'a')).to.deep.equal([3, 10, 101, START + 1500, START + 1501, failed]);
    });
  });

  describe('cancelling', () => {
    it('deletes a message that waits or is due later, leaves the others in order, and keeps its key', async (queue) => {
      await queue.publish('abcd');
      const [a] = await queue.takeAll(1);
      await queue.settle(a, retry(queue.now + 20));
      await queue.publishKeyed('k', 'key');
      for (const id of 'bak')
        expect(await queue.store.cancel(id)).to.deep.equal({ outcome: 'cancelled', action: 'sum' });
      expect(await queue.store.reads.find('b')).to.equal(undefined);
      expect(await queue.publishKeyed('l', 'key')).to.equal('k');
      await queue.expectCounts({ accepted: 5, cancelled: 3, waiting: 2 });
      expect(await queue.takenAt(queue.now + HOUR)).to.equal('cd');
    });

    it('of a running message is requested, each time it is asked for, and its owner can look it up', async (queue) => {
      await queue.publish('abc');
      await queue.take(2);
      const requests = async (...ids: string[]) => [...(await queue.store.cancelRequests(ids))];
      expect(await requests('a', 'b', 'c', 'x', '__proto__')).to.deep.equal([]);
      expect(await queue.store.cancel('a')).to.deep.equal({ outcome: 'requested', action: 'sum' });
      expect(await queue.cancel('a')).to.equal('requested');
      expect(await requests('a', 'b', 'c', 'x')).to.deep.equal(['a']);
      expect(await requests()).to.deep.equal([]);
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
    ] as const) {
      it(`of a running message ends as ${counted} if its attempt ends with ${settlement.kind}`, async (queue) => {
        await queue.publish('a');
        const delivery = await queue.next();
        await queue.cancel('a');
        expect(await queue.settle(delivery, settlement)).to.equal(effect);
        await queue.expectEnded({ accepted: 1, [counted]: 1 });
        expect(await queue.takeIds(1)).to.equal('');
      });
    }

    it('says what has ended, and nothing of what was cancelled or is unknown', async (queue) => {
      await queue.discard('b');
      await queue.publish('ac');
      await queue.settle(await queue.next(), complete());
      expect(await queue.cancel('c')).to.equal('cancelled');
      for (const id of 'ab') expect(await queue.cancel(id), id).to.equal('ended');
      for (const id of ['c', 'x', '', '__proto__']) expect(await queue.store.cancel(id), id).to.equal(undefined);
      await queue.expectCounts({ accepted: 3, completed: 1, dead: 1, cancelled: 1, waiting: 0 });
    });

    it('at the same time as a take has one of two ends', async (queue) => {
      await queue.publish('abcdefgh');
      const results = await Promise.all([...'abcdefgh'].map((id) => Promise.all([queue.cancel(id), queue.takeIds(1)])));
      const taken = results.map(([, ids]) => ids).join('');
      for (const [index, id] of [...'abcdefgh'].entries())
        expect(results[index]?.[0], id).to.equal(taken.includes(id) ? 'requested' : 'cancelled');
    });
  });

  if (!isDurable) return;

  describe('after the death of its process', () => {
    it('delivers what was running again, in its place, and charges no attempt', async (queue) => {
      await queue.publish('abc');
      await queue.settle(await queue.next(), retry(queue.now));
      expect(await queue.takeIds(3)).to.equal('bca');
      await queue.die();
      const [b, c, a] = await queue.takeAll(3);
      expect(a).to.deep.include({ id: 'a', attempt: 2, crashes: 0, isSuspect: false, delivery: 3 });
      expect(b).to.deep.include({ id: 'b', attempt: 1, crashes: 0, isSuspect: false, history: NO_ATTEMPTS });
      expect(c).to.deep.include({ id: 'c', attempt: 1, crashes: 0, isSuspect: false, delivery: 2 });
    });

    it('takes no settlement of the process before, neither at once nor later', async (queue) => {
      await queue.publish('a');
      const former = await queue.next();
      await queue.die();
      const settleLate = async () => {
        for (const late of [complete('late'), retry(queue.now + HOUR), discard(), release])
          expect(await queue.settle(former, late), late.kind).to.equal('late');
      };
      await settleLate();
      const present = await queue.next();
      await settleLate();
      expect(await queue.settle(present, complete())).to.equal('applied');
      await queue.expectCounts({ dead: 0, waiting: 0, retrying: 0, inFlight: 0 });
    });
  });

  describe('after two deaths', () => {
    it('takes a suspect in an empty window, alone, and nothing beside it', async (queue) => {
      await queue.publish('ab');
      await dieWithAll(queue, 2);
      await queue.publish('c');
      await queue.expectCounts({ waiting: 3 });
      const c = await queue.next();
      expect(c.id).to.equal('c');
      expect(await queue.takeIds(5)).to.equal('');
      await queue.settle(c, complete());
      for (const id of 'ab') {
        expect(await queue.takeIds(5, false)).to.equal('');
        const [suspect, ...others] = await queue.take(5, true);
        expect(suspect).to.include({ id, isSuspect: true, attempt: 1, crashes: 0 });
        expect(others).to.deep.equal([]);
        if (id === 'a') await queue.publish('d');
        for (const isIdle of [false, true]) expect(await queue.takeIds(5, isIdle)).to.equal('');
        if (suspect) await queue.settle(suspect, complete());
        if (id === 'a') await queue.settle(await queue.next(), complete());
      }
      await queue.expectCounts({ waiting: 0, inFlight: 0 });
    });

    it('takes a suspect that was limited, once its limit has room', async (queue) => {
      await queue.publish('ab');
      await dieWithAll(queue, 2);
      await queue.store.setLimits('sum', { concurrency: 1 }, 'api');
      await queue.restart();
      const a = await queue.next(true);
      expect(await queue.takeIds(5, true)).to.equal('');
      await queue.settle(a, complete());
      expect([a.id, await queue.takeIds(5, true)]).to.deep.equal(['a', 'b']);
    });

    it('takes a suspect in the end although others are due all the time', async (queue) => {
      await queue.publish('a');
      await dieWithAll(queue, 2);
      await queue.publish('b');
      queue.now += SUSPECT_WAIT_MS;
      // The window has to be drained first.
      expect(await queue.takeIds(5, false)).to.equal('');
      expect(await queue.takeIds(5, true)).to.equal('a');
    });

    it('suspects a message until an attempt has ended, even if it is released', async (queue) => {
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
      // Its deaths are counted from the beginning again.
      await queue.die();
      expect(await queue.next()).to.include({ isSuspect: false, attempt: 2 });
    });

    it('makes a message a dead letter with its third death, and charges a crash', async (queue) => {
      await queue.publish('ab');
      queue.now += 100;
      await dieWithAll(queue, 3);
      expect(await queue.letterIds()).to.equal('a');
      const letter = await queue.message('a');
      expect(letter).to.include({ attempts: 1, isPermanent: false, failedAt: queue.now });
      expect(reasonsOf(letter)).to.deep.equal([PROCESS_DIED]);
      expect(letter.history.attempts[0]?.endedAt).to.equal(queue.now);
      expect(letter.reason).to.contain(PROCESS_DIED);
      await queue.expectCounts({ dead: 1, waiting: 1, inFlight: 0 });
      await queue.redrive({ all: true });
      expect(await queue.next()).to.include({ id: 'a', isSuspect: false, attempt: 1, crashes: 0 });
    });
  });
}

import { expect } from 'chai';
import type { Attempt } from '../../db/attempt-history.ts';
import type { Delivery, Settlement } from '../../db/task-store.ts';
import {
  ack,
  cancel,
  complete,
  discard,
  HOUR,
  messageOf,
  output,
  type QueueTests,
  release,
  retry,
  row,
  START,
  type TestQueue,
} from './stage.ts';

const EVERY: readonly Settlement[] = [complete('late'), ack, retry(START + HOUR), discard(), release, cancel];

/** Expects that no settlement of `delivery` has an effect. */
async function expectLate(queue: TestQueue, delivery: Delivery): Promise<void> {
  const before = await queue.store.find(delivery.id);
  await queue.unchanged(async () => {
    for (const late of EVERY) expect(await queue.settle(delivery, late), late.kind).to.equal('late');
  });
  expect(await queue.store.find(delivery.id)).to.deep.equal(before);
}

/** Conformance specs of settlements, including late ones, and of rows. */
export function describeSettling({ it }: QueueTests): void {
  describe('settling', () => {
    it('writes the row of a completed task and deletes its message', async (queue) => {
      await queue.publish('a');
      queue.now += 7999;
      const { body, ...delivery } = await queue.next();
      expect(await queue.resultOf('a')).to.equal(undefined);
      expect(await queue.settle({ body, ...delivery }, complete('x'))).to.equal('applied');
      const times = { created_at: START / 1000, processed_at: START / 1000 + 7 };
      const expected = { id: 'a', payload: body, status: 'completed', result: output('x'), ...times };
      expect({ row: await queue.store.rows.find('a') }).to.deep.equal({ row: expected });
      await queue.expectEnded({ accepted: 1, completed: 1 });
    });

    it('of several deliveries has the effect of each, in order', async (queue) => {
      await queue.publish('abcdefg');
      const [a, b, c, d, e, f] = (await queue.takeAll(6)) as [
        Delivery,
        Delivery,
        Delivery,
        Delivery,
        Delivery,
        Delivery,
      ];
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

    it('of a delivery does nothing to a dead letter, nor to its next life', async (queue) => {
      await queue.publish('a');
      const former = await queue.next();
      await queue.settle(former, discard());
      await expectLate(queue, former);
      await queue.redrive({ all: true });
      await expectLate(queue, former);
      const present = await queue.next();
      await expectLate(queue, former);
      expect(await queue.located({ state: 'running' })).to.equal('a');
      expect(await queue.settle(present, complete())).to.equal('applied');
    });

    it('of an acked message counts it as completed once, and its row follows', async (queue) => {
      await queue.publish('a');
      const delivery = await queue.next();
      await queue.settle(delivery, ack);
      expect(await queue.store.find('a')).to.equal(undefined);
      expect(await queue.cancel('a')).to.equal(undefined);
      expect(await queue.settle(delivery, row('later'))).to.equal('applied');
      expect(await queue.stateOf('a')).to.equal('completed');
      expect(await queue.resultOf('a')).to.equal(output('later'));
      await queue.expectEnded({ accepted: 1, completed: 1 });
    });

    it('keeps what failed for good as a dead letter', async (queue) => {
      await queue.publish('ab');
      const [a, b] = await queue.takeAll(2);
      queue.now += 10;
      await queue.settle(b, discard('bad data'));
      await queue.settle(a, retry(queue.now));
      queue.now += 10;
      await queue.settle(await queue.next(), discard('too often', 'transient'));
      const common = { state: 'failed', acceptedAt: START };
      const [first, second] = await queue.letters();
      const badData = { reason: 'bad data', attempts: 1, failedAt: START + 10, isPermanent: true };
      expect(first).to.deep.include({ ...common, id: 'b', ...badData });
      const tooOften = { reason: 'too often', attempts: 2, failedAt: START + 20, isPermanent: false };
      expect(second).to.deep.include({ ...common, id: 'a', ...tooOften });
      await queue.expectEnded({ accepted: 2, dead: 2, failed: 2, retried: 1 });
    });

    it('takes reasons of any characters', async (queue) => {
      await queue.publish('ab');
      const [a, b] = await queue.takeAll(2);
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
        (await store.rows.find(id, 'detailed')) ?? {};
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
}

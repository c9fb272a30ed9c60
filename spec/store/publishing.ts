import { expect } from 'chai';
import { NO_ATTEMPTS } from '../../db/attempt-history.ts';
import { QueueFull } from '../../db/task-store.ts';
import {
  complete,
  discard,
  errorOf,
  messageOf,
  output,
  type QueueTests,
  release,
  retry,
  START,
  type TestQueue,
} from './stage.ts';

const SIZE = Buffer.byteLength(messageOf('a').body);

/** Conformance specs of submissions and bounds. */
export function describePublishing({ it, itWith }: QueueTests): void {
  describe('publishing', () => {
    it('keeps the message as it was submitted, and when', async (queue) => {
      queue.now += 1234;
      const traceparent = '00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01';
      const message = { ...messageOf('a', 'reverse', { text: 'ü \u0000 𝄞 \ud800' }), traceparent };
      expect(await queue.store.publish(message)).to.deep.equal({ id: 'a', isNew: true });
      const times = { priority: 3, runAt: queue.now, acceptedAt: queue.now, failedAt: undefined, startedAt: undefined };
      const nothing = { attempts: 0, reason: null, history: NO_ATTEMPTS, isPermanent: false, progress: undefined };
      const bodyBytes = Buffer.byteLength(message.body);
      const expected = { ...message, bodyBytes, state: 'waiting', ...times, ...nothing };
      expect(await queue.message('a')).to.deep.include(expected);
      const first = { delivery: 1, attempt: 1, crashes: 0, isSuspect: false, history: NO_ATTEMPTS };
      expect(await queue.next()).to.deep.include({ ...message, dueAt: START + 1234, ...first });
    });

    it('accepts any action', async (queue) => {
      const actions = ['', ' ä\r\n€: 😀\u0000', '\ud83d', `${'x'.repeat(255)}😀`, '__proto__'];
      for (const [index, action] of actions.entries()) await queue.store.publish(messageOf(`${index}`, action));
      await queue.store.publish({ ...messageOf('none'), action: undefined });
      for (const [index, action] of actions.entries()) {
        const delivery = await queue.next();
        expect(delivery.body).to.equal(messageOf(`${index}`, action).body);
        expect(await queue.settle(delivery, complete())).to.equal('applied');
      }
      expect((await queue.next()).action).to.equal(undefined);
    });

    it('says when a message can be taken, which is no later than its answer', async (queue) => {
      const said: string[] = [];
      const key = { key: 'key', fingerprint: 'x' };
      const published = queue.store
        .publish(messageOf('a'), key, () => said.push('accepted'))
        .then(() => said.push('told'));
      await published;
      await queue.store.publish(messageOf('b'), key, () => said.push('again'));
      expect(said).to.deep.equal(['accepted', 'told']);
    });

    itWith(
      { maxLength: 2 },
      'refuses a message past the maximum number, and accepts one for each that leaves',
      async (queue) => {
        await queue.publish('ab');
        await expectFull(queue, 'the queue holds 2 messages');
        const a = await queue.next();
        await expectFull(queue, 'the queue holds 2 messages');
        await queue.settle(a, complete());
        await queue.publish('c');
        await expectFull(queue, 'the queue holds 2 messages');
        expect(await queue.cancel('c')).to.equal('cancelled');
        await queue.publish('d');
        await queue.expectCounts({ accepted: 4, completed: 1, cancelled: 1, waiting: 2 });
      },
    );

    itWith(
      { maxBytes: 2 * SIZE },
      'refuses a message past the maximum size, and accepts one that just fits',
      async (queue) => {
        await queue.publish('a');
        await queue.expectCounts({ bytes: SIZE });
        expect(await errorOf(() => queue.store.publish(messageOf('b', 'sums')))).to.be.instanceOf(QueueFull);
        await queue.publish('b');
        await expectFull(queue, `the queue holds ${2 * SIZE} bytes`);
        await queue.settle(await queue.next(), complete());
        await queue.expectCounts({ bytes: SIZE });
        await queue.publish('c');
      },
    );

    itWith(
      { maxLength: 4, maxBytes: 1000 },
      'refuses only those of the messages submitted together that do not fit',
      async (queue) => {
        const sizes = [10, 2000, 10, 10, 2000, 10, 10];
        const publish = (size: number, index: number) => queue.store.publish(messageOf(`${index}`, 'x'.repeat(size)));
        const results = await Promise.allSettled(sizes.map(publish));
        expect(results.map(({ status }) => Number(status === 'fulfilled')).join('')).to.equal('1011010');
        for (const each of results) if (each.status === 'rejected') expect(each.reason).to.be.instanceOf(QueueFull);
        await queue.expectCounts({ accepted: 4, waiting: 4 });
      },
    );

    itWith({ maxLength: 1 }, 'counts retries that wait and what was released, not dead letters', async (queue) => {
      await queue.publish('a');
      await queue.settle(await queue.next(), retry(queue.now + 5));
      await expectFull(queue);
      queue.now += 5;
      await queue.settle(await queue.next(), release);
      await expectFull(queue);
      await queue.settle(await queue.next(), discard());
      await queue.publish('b');
    });

    it('numbers no two messages alike, whatever has left the queue and whatever the clock says', async (queue) => {
      const arrivals: number[] = [];
      const completeOne = async (id: string) => {
        await queue.publish(id);
        const delivery = await queue.next();
        arrivals.push(delivery.arrival);
        await queue.settle(delivery, complete(id));
      };
      await completeOne('a');
      await completeOne('b');
      queue.now -= 1000;
      await completeOne('c');
      await queue.restart();
      await completeOne('d');
      expect(arrivals).to.deep.equal([...new Set(arrivals)].sort((one, other) => one - other));
      for (const id of 'abcd') expect(await queue.resultOf(id)).to.equal(output(id));
    });
  });
}

async function expectFull(queue: TestQueue, message?: string): Promise<void> {
  const error = await queue.unchanged(() => errorOf(() => queue.store.publish(messageOf('refused'))));
  expect(error).to.be.instanceOf(QueueFull);
  if (message !== undefined) expect(error.message).to.equal(message);
}

import { expect } from 'chai';
import { NO_ATTEMPTS } from '../../db/attempt-history.ts';
import { KEY_LIFETIME_MS, KeyReused, type Published, QueueFull, type Submission } from '../../db/task-store.ts';
import { complete, discard, output, release, retry } from './settlements.ts';
import { errorOf, HOUR, idsOf, messageOf, type QueueTests, START, type TestQueue } from './stage.ts';

const SIZE = Buffer.byteLength(messageOf('a').body);

const submission = (id: string, key?: string, fingerprint = 'x'): Submission => {
  return { message: messageOf(id), key: key === undefined ? undefined : { key, fingerprint } };
};

/** Publishes a batch. Returns each answer as text, and the ids that were reported as accepted. */
async function publishAll({ store }: TestQueue, submissions: Submission[]) {
  let accepted = '';
  const results = await store.publishAll(submissions, (messages) => {
    accepted += idsOf(messages);
  });
  const texts = results.map((each) => {
    return each instanceof KeyReused ? 'reused' : `${(each as Published).id}${(each as Published).isNew ? ' new' : ''}`;
  });
  return [...texts, accepted];
}

/** Conformance specs of submissions, alone, in batches and with idempotency keys, and of the bounds of the queue. */
export function describeSubmitting({ it, itWith }: QueueTests): void {
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
      await queue.store.publish(messageOf('a'), key, () => said.push('accepted'));
      said.push('told');
      await queue.store.publish(messageOf('b'), key, () => said.push('again'));
      expect(said).to.deep.equal(['accepted', 'told']);
    });

    itWith({ maxLength: 2 }, 'refuses a message past the maximum number, until one leaves', async (queue) => {
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
    });

    itWith({ maxBytes: 2 * SIZE }, 'refuses a message past the maximum size, not one that fits', async (queue) => {
      await queue.publish('a');
      await queue.expectCounts({ bytes: SIZE });
      expect(await errorOf(() => queue.store.publish(messageOf('b', 'sums')))).to.be.instanceOf(QueueFull);
      await queue.publish('b');
      await expectFull(queue, `the queue holds ${2 * SIZE} bytes`);
      await queue.settle(await queue.next(), complete());
      await queue.expectCounts({ bytes: SIZE });
      await queue.publish('c');
    });

    itWith(
      { maxLength: 4, maxBytes: 1000 },
      'refuses those of one turn that do not fit, and no others',
      async (queue) => {
        const sizes = [10, 2000, 10, 10, 2000, 10, 10];
        const publish = (size: number, index: number) => queue.store.publish(messageOf(`${index}`, 'x'.repeat(size)));
        const results = await Promise.allSettled(sizes.map(publish));
        expect(results.map(({ status }) => Number(status === 'fulfilled')).join('')).to.equal('1011010');
        for (const each of results) if (each.status === 'rejected') expect(each.reason).to.be.instanceOf(QueueFull);
        await queue.expectCounts({ accepted: 4, waiting: 4 });
      },
    );

    itWith({ maxLength: 1 }, 'counts scheduled, retrying and released messages, not dead letters', async (queue) => {
      await queue.store.publish({ ...messageOf('s'), runAt: queue.now + 5 });
      await expectFull(queue);
      await queue.cancel('s');
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

  describe('a batch', () => {
    it('is accepted as a whole, in its order', async (queue) => {
      await queue.publish('a');
      expect(await publishAll(queue, [submission('c'), submission('b'), submission('d')])).to.deep.equal([
        ...['c new', 'b new', 'd new'],
        'cbd',
      ]);
      expect(await queue.takeIds(5)).to.equal('acbd');
      await queue.expectCounts({ accepted: 4, inFlight: 4 });
    });

    itWith({ maxLength: 3 }, 'that does not fit is refused as a whole, and the next one is accepted', async (queue) => {
      await queue.publish('a');
      const refused = [submission('b'), submission('c', 'key'), submission('d')];
      await queue.unchanged(async () => {
        expect(await errorOf(() => queue.store.publishAll(refused))).to.be.instanceOf(QueueFull);
      });
      expect(await publishAll(queue, refused.slice(0, 2))).to.deep.equal(['b new', 'c new', 'bc']);
      expect(await publishAll(queue, [submission('x', 'key')])).to.deep.equal(['c', '']);
    });

    itWith({ maxLength: 3 }, 'needs room only for the submissions that are new', async (queue) => {
      await publishAll(queue, [submission('a', 'key')]);
      const batch = [submission('x', 'key'), submission('b'), submission('y', 'key'), submission('c')];
      expect(await publishAll(queue, batch)).to.deep.equal(['a', 'b new', 'a', 'c new', 'bc']);
    });

    it('is accepted once for each key, also if a key occurs twice', async (queue) => {
      const batch = () => [submission('a', 'one'), submission('b', 'two'), submission('c', 'one'), submission('d')];
      expect(await publishAll(queue, batch())).to.deep.equal(['a new', 'b new', 'a', 'd new', 'abd']);
      await queue.settle(await queue.next(), complete());
      expect(await publishAll(queue, batch().slice(0, 3))).to.deep.equal(['a', 'b', 'a', '']);
      await queue.expectCounts({ accepted: 3, completed: 1, waiting: 2 });
    });

    it('with keys of other submissions is refused as a whole, and says which', async (queue) => {
      await publishAll(queue, [submission('a', 'one')]);
      const wrong = [submission('b'), submission('c', 'one', 'y'), submission('d', 'two'), submission('e', 'two', 'y')];
      await queue.unchanged(async () => {
        const answers = await publishAll(queue, wrong);
        expect(answers.map((answer) => answer === 'reused')).to.deep.equal([false, true, false, true, false]);
        expect(answers.at(-1)).to.equal('');
      });
      expect(await publishAll(queue, [submission('f', 'two', 'y')])).to.deep.equal(['f new', 'f']);
    });
  });

  describe('submissions with a key', () => {
    it('are accepted once, and stand for the first one, even after it is done', async (queue) => {
      const publish = (id: string) => queue.store.publish(messageOf(id), { key: 'key', fingerprint: 'x' });
      expect(await publish('a')).to.deep.equal({ id: 'a', isNew: true });
      expect(await publish('b')).to.deep.equal({ id: 'a', isNew: false });
      await queue.expectCounts({ accepted: 1, waiting: 1 });
      await queue.settle(await queue.next(), complete());
      expect(await publish('c')).to.deep.equal({ id: 'a', isNew: false });
      expect(await queue.publishKeyed('d', 'Key')).to.equal('d');
      await queue.expectCounts({ accepted: 2, completed: 1, waiting: 1 });
    });

    it('are accepted once when they come at the same time', async (queue) => {
      const equal = [...'abc'].map((id) => queue.publishKeyed(id, 'key'));
      const different = [...'xyz'].map((id) => queue.publishKeyed(id, 'another', id));
      const others = [...'de'].map((id) => queue.publishKeyed(id, `key of ${id}`));
      const answers = await Promise.all(equal);
      expect(new Set(answers).size).to.equal(1);
      expect(answers[0]).to.be.oneOf([...'abc']);
      const refused = (await Promise.all(different)).filter((answer) => answer instanceof KeyReused);
      expect(refused).to.have.length(2);
      expect(await Promise.all(others)).to.deep.equal(['d', 'e']);
      await queue.expectCounts({ accepted: 4, waiting: 4 });
    });

    itWith({ maxLength: 1 }, 'may be repeated after a refusal, and are answered by a full queue', async (queue) => {
      await queue.publish('a');
      const refused = await Promise.all([...'bc'].map((id) => queue.publishKeyed(id, 'key', id)));
      for (const answer of refused) expect(answer).to.be.instanceOf(QueueFull);
      await queue.settle(await queue.next(), complete());
      expect(await queue.publishKeyed('d', 'key')).to.equal('d');
      expect(await queue.publishKeyed('e', 'key')).to.equal('d');
    });

    it('are remembered for a day', async (queue) => {
      expect(KEY_LIFETIME_MS).to.equal(24 * HOUR);
      await queue.publishKeyed('a', 'key', 'x');
      queue.now += KEY_LIFETIME_MS - 1;
      expect(await queue.publishKeyed('b', 'key', 'x')).to.equal('a');
      queue.now += 1;
      expect(await queue.publishKeyed('c', 'key', 'y')).to.equal('c');
      expect(await queue.publishKeyed('d', 'key', 'y')).to.equal('c');
    });

    for (const step of [1, 0, -HOUR]) {
      itWith({ maxKeys: 2 }, `are evicted by number, oldest first, if the clock moves by ${step} ms`, async (queue) => {
        for (const id of 'abc') {
          queue.now += step;
          await queue.publishKeyed(id, `key of ${id}`);
        }
        expect(await queue.publishKeyed('x', 'key of c')).to.equal('c');
        expect(await queue.publishKeyed('y', 'key of b')).to.equal('b');
        expect(await queue.publishKeyed('z', 'key of a')).to.equal('z');
        expect(await queue.publishKeyed('w', 'key of c')).to.equal('c');
      });
    }

    it('are remembered up to the bound that holds after a restart', async (queue) => {
      for (const id of 'abc') await queue.publishKeyed(id, `key of ${id}`);
      await queue.restart({ maxKeys: 1 });
      expect(await queue.publishKeyed('d', 'key of d')).to.equal('d');
      expect(await queue.publishKeyed('e', 'key of a')).to.equal('e');
    });
  });
}

async function expectFull(queue: TestQueue, message?: string): Promise<void> {
  const error = await queue.unchanged(() => errorOf(() => queue.store.publish(messageOf('refused'))));
  expect(error).to.be.instanceOf(QueueFull);
  if (message !== undefined) expect(error.message).to.equal(message);
}

import { expect } from 'chai';
import { NO_ATTEMPTS } from '../../db/attempt-history.ts';
import { KEY_LIFETIME_MS, KeyReused, type Message, QueueFull, type Submission } from '../../db/task-store.ts';
import { complete, discard, output, release, retry } from './settlements.ts';
import { errorOf, HOUR, idsOf, messageOf, type QueueTests, START, type TestQueue } from './stage.ts';

const SIZE = Buffer.byteLength(messageOf('a').body);

const submission = (id: string, key?: string, fingerprint = 'x'): Submission => {
  return { message: messageOf(id), key: key === undefined ? undefined : { key, fingerprint } };
};

/** Publishes a batch. Returns each answer as text, and the ids that were reported as accepted. */
async function publishAll({ store }: TestQueue, submissions: Submission[]) {
  const accepted: Message[] = [];
  const results = await store.publishAll(submissions, (messages) => accepted.push(...messages));
  const texts = results.map((each) => ('id' in each ? `${each.id}${each.isNew ? ' new' : ''}` : each.name));
  return [...texts, idsOf(accepted)];
}

export function describeSubmitting({ it }: QueueTests): void {
  it('publishing keeps the message as it was submitted, and when', async (queue) => {
    queue.now += 1234;
    const message = { ...messageOf('a', 'reverse', { text: 'ü \u0000 𝄞 \ud800' }), traceparent: 'trace' };
    expect(await queue.store.publish(message)).to.deep.equal({ id: 'a', isNew: true });
    const times = { priority: 3, runAt: queue.now, acceptedAt: queue.now, failedAt: undefined, startedAt: undefined };
    const nothing = { attempts: 0, reason: null, history: NO_ATTEMPTS, isPermanent: false, progress: undefined };
    const bodyBytes = Buffer.byteLength(message.body);
    expect(await queue.message('a')).to.deep.include({ ...message, bodyBytes, state: 'waiting', ...times, ...nothing });
    const first = { delivery: 1, attempt: 1, crashes: 0, isSuspect: false, history: NO_ATTEMPTS };
    expect(await queue.next()).to.deep.include({ ...message, dueAt: START + 1234, ...first });
  });

  it('publishing accepts any action', async (queue) => {
    for (const action of ['', ' ä\r\n€: 😀\u0000', '\ud83d', `${'x'.repeat(255)}😀`, '__proto__']) {
      const message = messageOf(action, action);
      await queue.store.publish({ ...message, id: 'a' });
      const delivery = await queue.next();
      expect(delivery.body).to.equal(message.body);
      expect(await queue.settle(delivery, complete())).to.equal('applied');
    }
    const [none] = await queue.running('b', { action: undefined });
    expect(none.action).to.equal(undefined);
  });

  it('publishing says when a message can be taken, which is no later than its answer', async (queue) => {
    const said: string[] = [];
    for (const id of 'ab') {
      await queue.store.publish(messageOf(id), { key: 'key', fingerprint: 'x' }, () => said.push(`accepted ${id}`));
      said.push(`answered ${id}`);
    }
    expect(said).to.deep.equal(['accepted a', 'answered a', 'answered b']);
  });

  it('publishing refuses a message past the maximum number, until one leaves', async (queue) => {
    await queue.restart({ maxLength: 2 });
    await queue.publish('ab');
    const expectFull = () => expectRefused(queue, 'the queue holds 2 messages');
    await expectFull();
    const a = await queue.next();
    await expectFull();
    await queue.settle(a, complete());
    await queue.publish('s', { runAt: queue.now + 5 });
    await expectFull();
    expect(await queue.cancel('s')).to.equal('cancelled');
    const [b] = await queue.takeAll(1);
    await queue.publish('c');
    await queue.settle(b, retry(queue.now + 5));
    await expectFull();
    queue.now += 5;
    const [, again] = await queue.takeAll(2);
    await queue.settle(again, release);
    await expectFull();
    await queue.settle(await queue.next(), discard());
    await queue.publish('d');
    await queue.expectCounts({ accepted: 5, completed: 1, cancelled: 1, dead: 1 });
    await queue.purge({ all: true });
    await expectFull();
  });

  it('publishing refuses a message past the maximum size in bytes, not one that fits', async (queue) => {
    await queue.restart({ maxBytes: 2 * SIZE });
    await queue.publish('a');
    await queue.expectCounts({ bytes: SIZE });
    expect(await errorOf(() => queue.store.publish(messageOf('b', 'süm')))).to.be.instanceOf(QueueFull);
    await queue.publish('b');
    await expectRefused(queue, `the queue holds ${2 * SIZE} bytes`);
    await queue.settle(await queue.next(), complete());
    await queue.expectCounts({ bytes: SIZE });
    await queue.publish('c');
    await queue.restart({ maxBytes: 3 * SIZE + 9 });
    const tooLong = { ...messageOf('d'), callbackUrl: 'http://a.b' };
    expect(await errorOf(() => queue.store.publish(tooLong))).to.be.instanceOf(QueueFull);
  });

  it('publishing refuses only those of one turn that do not fit', async (queue) => {
    await queue.restart({ maxLength: 4, maxBytes: 1000 });
    const sizes = { a: 10, b: 2000, c: 10, d: 10, e: 2000, f: 10, g: 10 };
    const publish = ([id, size]: [string, number]) =>
      queue.store.publish(messageOf(id, 'x'.repeat(size))).catch(({ name }: Error) => name);
    const answers = await Promise.all(Object.entries(sizes).map(publish));
    expect(answers.map((each) => each === 'QueueFull')).to.deep.equal([false, true, false, false, true, false, true]);
    await queue.expectCounts({ accepted: 4, waiting: 4 });
  });

  it('publishing numbers messages in their order, whatever has left the queue and whatever the clock says', async (queue) => {
    const arrivals: number[] = [];
    for (const id of 'abcd') {
      if (id === 'c') queue.now -= 1000;
      if (id === 'd') await queue.restart();
      const [delivery] = await queue.running(id);
      arrivals.push(delivery.arrival);
      await queue.settle(delivery, complete(id));
    }
    expect(arrivals).to.deep.equal([...new Set(arrivals)].sort((one, other) => one - other));
    for (const id of 'abcd') expect(await queue.resultOf(id)).to.equal(output(id));
  });

  it('a batch is accepted as a whole, in its order, once for each key, also if a key occurs twice', async (queue) => {
    await queue.publish('x');
    const batch = () => [submission('c', 'one'), submission('b', 'two'), submission('a', 'one'), submission('d')];
    expect(await publishAll(queue, batch())).to.deep.equal(['c new', 'b new', 'c', 'd new', 'cbd']);
    const [, c] = await queue.takeAll(2);
    await queue.settle(c, complete());
    expect(await publishAll(queue, batch().slice(0, 3))).to.deep.equal(['c', 'b', 'c', '']);
    expect(await queue.takeIds(5)).to.equal('bd');
    await queue.expectCounts({ accepted: 4, completed: 1, inFlight: 3 });
  });

  it('a batch that does not fit is refused as a whole, but repeated keys need no room', async (queue) => {
    await queue.restart({ maxLength: 3 });
    await queue.publish('a');
    const refused = [submission('b'), submission('c', 'key'), submission('d')];
    expect(await queue.unchanged(() => errorOf(() => queue.store.publishAll(refused)))).to.be.instanceOf(QueueFull);
    expect(await publishAll(queue, refused.slice(1, 2))).to.deep.equal(['c new', 'c']);
    const batch = [submission('x', 'key'), submission('b'), submission('y', 'key')];
    expect(await publishAll(queue, batch)).to.deep.equal(['c', 'b new', 'c', 'b']);
    expect(await publishAll(queue, [submission('x', 'key')])).to.deep.equal(['c', '']);
  });

  it('a batch with keys of other submissions is refused as a whole, and says which', async (queue) => {
    await publishAll(queue, [submission('a', 'one')]);
    const wrong = [submission('b'), submission('c', 'one', 'y'), submission('d', 'two'), submission('e', 'two', 'y')];
    const answers = await queue.unchanged(() => publishAll(queue, wrong));
    expect(answers).to.deep.equal(['b', 'KeyReused', 'd', 'KeyReused', '']);
    const together = await Promise.all([...'fg'].map((id) => publishAll(queue, [submission(id, 'two', 'y')])));
    expect(together.flat()).to.deep.equal(['f new', 'f', 'f', '']);
  });

  it('submissions with a key are accepted once, and stand for the first one for a day, even after it is done', async (queue) => {
    await queue.restart({ maxKeys: 2 });
    expect(KEY_LIFETIME_MS).to.equal(24 * HOUR);
    const publish = (id: string) => queue.store.publish(messageOf(id), { key: 'key', fingerprint: 'x' });
    expect(await publish('a')).to.deep.equal({ id: 'a', isNew: true });
    expect(await publish('b')).to.deep.equal({ id: 'a', isNew: false });
    await queue.settle(await queue.next(), complete());
    queue.now += KEY_LIFETIME_MS - 1;
    expect(await publish('c')).to.deep.equal({ id: 'a', isNew: false });
    expect(await queue.publishKeyed('d', 'Key')).to.equal('d');
    await queue.expectCounts({ accepted: 2, completed: 1, waiting: 1 });
    queue.now += 1;
    for (const id of 'ef') expect(await queue.publishKeyed(id, 'key', 'y')).to.equal('e');
    expect(await queue.publishKeyed('g', 'another')).to.equal('g');
    expect(await queue.publishKeyed('h', 'key', 'y'), 'newer than the key of d').to.equal('e');
  });

  it('submissions with a key are accepted once when they come at the same time', async (queue) => {
    const equal = [...'abc'].map((id) => queue.publishKeyed(id, 'key'));
    const different = [...'xyz'].map((id) => queue.publishKeyed(id, 'another', id));
    const others = [...'de'].map((id) => queue.publishKeyed(id, `key of ${id}`));
    const [first, ...repeated] = await Promise.all(equal);
    expect(first).to.be.oneOf([...'abc']);
    expect(repeated).to.deep.equal([first, first]);
    expect((await Promise.all(different)).filter((answer) => answer instanceof KeyReused)).to.have.length(2);
    expect(await Promise.all(others)).to.deep.equal(['d', 'e']);
    await queue.expectCounts({ accepted: 4, waiting: 4 });
  });

  it('submissions with a key may be repeated after a refusal, and are answered by a full queue', async (queue) => {
    await queue.restart({ maxLength: 1 });
    await queue.publish('a');
    const refused = await Promise.all([...'bc'].map((id) => queue.publishKeyed(id, 'key', id)));
    for (const answer of refused) expect(answer).to.be.instanceOf(QueueFull);
    await queue.settle(await queue.next(), complete());
    expect(await queue.publishKeyed('d', 'key')).to.equal('d');
    expect(await queue.publishKeyed('e', 'key')).to.equal('d');
  });

  for (const step of [1, 0, -HOUR])
    it(`submissions with a key are evicted by number, oldest first, if the clock moves by ${step} ms, also one whose key had expired, and by the bound of a restart`, async (queue) => {
      await queue.restart({ maxKeys: 2 });
      await queue.publishKeyed('expired', 'key of b');
      queue.now += 2 * KEY_LIFETIME_MS;
      for (const id of 'abc') {
        queue.now += step;
        await queue.publishKeyed(id, `key of ${id}`);
      }
      for (const [id, former] of Object.entries({ x: 'c', y: 'b', z: 'a', w: 'c' }))
        expect(await queue.publishKeyed(id, `key of ${former}`)).to.equal(former === 'a' ? id : former);
      await queue.restart({ maxKeys: 1 });
      expect(await queue.publishKeyed('d', 'key of d')).to.equal('d');
      expect(await queue.publishKeyed('e', 'key of a')).to.equal('e');
    });
}

async function expectRefused(queue: TestQueue, message: string): Promise<void> {
  const error = await queue.unchanged(() => errorOf(() => queue.store.publish(messageOf('refused'))));
  expect(error).to.be.instanceOf(QueueFull).with.property('message', message);
}

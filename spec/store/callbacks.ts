import { expect } from 'chai';
import type { CallbackData, Delivery, Message } from '../../db/task-store.ts';
import { ack, cancel, complete, discard, release, retry, row } from './settlements.ts';
import { messageOf, type QueueTests, START, type TestQueue } from './stage.ts';
import { boundDeadLetters } from './store-calls.ts';

const UUID = /^[\da-f]{8}-[\da-f]{4}-4[\da-f]{3}-[89ab][\da-f]{3}-[\da-f]{12}$/;
const URL = 'https://example.com:8443/hook?a="b\\c"';

const publish = (queue: TestQueue, ids: string, options: Partial<Message> = {}) =>
  queue.publish(ids, { callbackUrl: URL, ...options });

/** Takes all callbacks that wait and completes them. Returns the ids of their tasks with their ends. */
async function ends(queue: TestQueue): Promise<string> {
  const taken = await queue.take(100);
  expect(taken.every(({ action, callbackOf }) => action === 'callback' && callbackOf !== undefined)).to.equal(true);
  await queue.settleAll(taken, complete());
  return taken.map(({ callbackOf, body }) => `${callbackOf} ${dataOf(body).status}`).join(', ');
}

const dataOf = (body: string): CallbackData => JSON.parse(body).data;

export function describeCallbacks({ it, driver }: QueueTests): void {
  it('a task with a callback URL leaves one callback, which is a task of its own, when it completes', async (queue) => {
    await publish(queue, 'a', { action: 'say "hi"\0' });
    expect((await queue.message('a')).callbackUrl).to.equal(URL);
    const a = await queue.next();
    expect(a.callbackOf).to.equal(undefined);
    queue.now += 2000;
    await queue.settle(a, complete());
    const callback = await queue.next();
    expect(callback).to.include({ action: 'callback', callbackOf: 'a', limitKey: 'example.com:8443', attempt: 1 });
    const { id, body } = callback;
    expect(id).to.match(UUID);
    const data = { url: URL, task: 'a', action: 'say "hi"\0', status: 'completed' };
    expect(JSON.parse(body)).to.deep.equal({ id, action: 'callback', data, created_at: START / 1000 + 2 });
    expect(body).to.match(/^\{"id":"[^"]{36}","action":"callback","data":\{/);
    const message = { acceptedAt: queue.now, runAt: queue.now, priority: 1, callbackUrl: undefined };
    expect(await queue.message(id)).to.include(message);
    await queue.expectCounts({ accepted: 2, completed: 1, inFlight: 1, bytes: Buffer.byteLength(body) });
    await queue.settle(callback, complete());
    await queue.expectEnded({ completed: 2 });
  });

  it('a task with a callback URL leaves one when it fails for good, and again after a redrive, or at its early ack, but none before', async (queue) => {
    await publish(queue, 'a');
    for (const settlement of [release, retry(queue.now), discard()]) await queue.settle(await queue.next(), settlement);
    expect(await ends(queue)).to.equal('a failed');
    expect((await queue.message('a')).callbackUrl).to.equal(URL);
    await queue.redrive({ all: true });
    const again = await queue.next();
    for (const settlement of [discard(), discard()]) await queue.settle(again, settlement);
    expect(await ends(queue)).to.equal('a failed');
    await queue.redrive({ all: true });
    const last = await queue.next();
    for (const settlement of [ack, row(1)]) await queue.settle(last, settlement);
    expect(await ends(queue)).to.equal('a completed');
    await queue.expectEnded({ completed: 4 });
  });

  it('a task with a callback URL leaves one however it is cancelled', async (queue) => {
    await publish(queue, 'a');
    await publish(queue, 'b', { runAt: queue.now + 1000 });
    for (const id of 'ab') await queue.cancel(id);
    expect(await ends(queue)).to.equal('a cancelled, b cancelled');
    await publish(queue, 'cdef');
    const [c, d, e, f] = await queue.takeAll(4);
    await queue.settle(c, cancel);
    for (const { id } of [d, e, f]) await queue.cancel(id);
    await queue.settle(d, release);
    await queue.settle(e, retry(queue.now));
    expect(await ends(queue)).to.equal('c cancelled, d cancelled, e cancelled');
    await queue.settle(f, complete());
    expect(await ends(queue)).to.equal('f completed');
    await queue.expectEnded({ completed: 7, cancelled: 5 });
    await publish(queue, 'g');
    await queue.next();
    await queue.cancel('g');
    await queue.restart();
    expect(await ends(queue)).to.equal('g cancelled');
  });

  it('a task with a callback URL leaves one although the queue is full, and counts its URL', async (queue) => {
    await queue.restart({ maxLength: 2 });
    await publish(queue, 'a');
    await queue.publish('b');
    await queue.expectCounts({ bytes: 2 * messageOf('a').body.length + URL.length });
    await queue.settle(await queue.next(), complete());
    await queue.expectCounts({ waiting: 2 });
    expect((await queue.next()).callbackOf).to.equal('a');
  });

  it('a task with a callback URL leaves none when its dead letter is evicted', async (queue) => {
    boundDeadLetters({ maxLength: 1 });
    await queue.settleAll(await queue.running('a', { callbackUrl: URL }), discard());
    expect(await ends(queue)).to.equal('a failed');
    expect(await queue.settleAll(await queue.running('b'), discard())).to.deep.equal(['a']);
    await queue.expectCounts({ waiting: 0, dropped: 1 });
  });

  if (driver.isDurable)
    it('a task with a callback URL leaves one when it is cancelled or exhausted by the death of its process, which is not charged itself', async (queue) => {
      await queue.running('ab', { callbackUrl: URL });
      await queue.cancel('b');
      await queue.die();
      expect((await queue.next()).callbackOf).to.equal('b');
      for (let death = 0; death < 4; death += 1) {
        await queue.die();
        expect(await queue.next()).to.include({ callbackOf: 'b', attempt: 1, isSuspect: false });
      }
      await queue.die();
      const callback = await queue.next();
      expect(dataOf(callback.body).status).to.equal('cancelled');
      await queue.settle(callback, complete());
      for (let death = 0; death < 2; death += 1) {
        expect((await queue.next(true)).id).to.equal('a');
        await queue.die();
      }
      expect([await queue.stateOf('a'), await ends(queue)]).to.deep.equal(['failed', 'a failed']);
    });

  it('callbacks obey the limits of their action and of each host', async (queue) => {
    await queue.store.setLimits('callback', { concurrency: 3, perKey: { concurrency: 2 } }, 'module');
    await publish(queue, 'abcd');
    await publish(queue, 'ef', { callbackUrl: 'http://other.example/' });
    await queue.settleAll(await queue.takeAll(6), complete());
    const taken = await queue.take(9);
    const hosts = taken.map(({ limitKey }) => limitKey).sort();
    expect(hosts).to.deep.equal([...Array(2).fill('example.com:8443'), 'other.example']);
    await queue.expectCounts({ limited: 3, inFlight: 3 });
    await queue.settleAll(taken, complete());
    expect(await queue.take(9)).to.have.length(3);
  });

  it('callbacks are taken without other messages on request, as far as they are due, and not while the queue is paused', async (queue) => {
    const taken = async (max: number) =>
      (await queue.store.takeCallbacks(max)).deliveries.map(({ callbackOf }) => callbackOf).join('');
    await queue.settleAll(await queue.running('abc', { callbackUrl: URL }), complete());
    // A task with their action is none.
    await queue.store.publish(messageOf('x', 'callback', { url: URL, task: 'b', status: 'completed' }));
    await queue.publish('yz');
    await queue.store.setPaused(true);
    expect(await taken(9)).to.equal('');
    await queue.store.setPaused(false);
    const [first] = (await queue.store.takeCallbacks(1)).deliveries;
    expect([first?.callbackOf, await taken(9)]).to.deep.equal(['a', 'bc']);
    await queue.settle(first as Delivery, retry(queue.now + 1000));
    expect(await taken(9)).to.equal('');
    queue.now += 1000;
    expect(await taken(9)).to.equal('a');
    await queue.expectCounts({ waiting: 3, inFlight: 3, completed: 3 });
    expect(await queue.takeIds(9)).to.equal('xyz');
  });
}

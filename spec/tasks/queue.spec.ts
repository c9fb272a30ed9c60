import { expect } from 'chai';
import type { Awaitable } from '../../db/task-store.ts';
import { type NodeMessage, Queue, type QueueBus } from '../../main/tasks/queue.ts';
import type { QueueEvent, TaskEvent } from '../../main/tasks/task-events.ts';
import { sqliteDriver } from '../store/sqlite-driver.ts';
import { ack, complete, discard, messageOf, release, retry, roomy, TestQueue } from '../store/stage.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { until } from '../support/until.ts';

/** Opens a queue in memory, with a record of its events and of the calls of its listener. */
async function start(bounds = roomy) {
  const clock = new ManualClock();
  const test = new TestQueue(sqliteDriver('memory'), bounds);
  test.now = clock.now();
  await test.open();
  const events: QueueEvent[] = [];
  const calls = { ready: 0 };
  const queue = await Queue.open({ store: test.store, onEvent: (event) => events.push(event), clock });
  queue.onReady(() => calls.ready++);
  const next = async () => (await queue.take(1, true)).deliveries[0] ?? expect.fail('no message is due');
  /** Returns the events since the last call, without what all of them have. */
  const told = () =>
    events.splice(0).map((told) => {
      const { at, action, ...event } = told as QueueEvent & { action?: string };
      return event;
    });
  const publish = (id: string) => queue.publish(messageOf(id));
  return { queue, clock, events, calls, next, told, publish };
}

describe('the events of the queue', () => {
  it('report every step, in order', async () => {
    const { queue, clock, next, told, publish } = await start();
    await publish('a');
    const first = await next();
    queue.reportStart(first);
    queue.reportProgress(first, { fraction: 0.5, note: 'half' });
    await queue.settle([{ delivery: first, settlement: retry(clock.now(), 'no') }]);
    const second = await next();
    queue.reportStart(second);
    await queue.settle([{ delivery: second, settlement: discard('bad data') }]);
    await queue.redrive({ all: true });
    const third = await next();
    await queue.settle([{ delivery: third, settlement: complete() }]);
    expect(told()).to.deep.equal([
      { event: 'accepted', id: 'a' },
      { event: 'started', id: 'a', attempt: 1 },
      { event: 'progress', id: 'a', attempt: 1, fraction: 0.5, note: 'half' },
      { event: 'retrying', id: 'a', attempts: 1, reason: 'no', dueAt: clock.now() },
      { event: 'started', id: 'a', attempt: 2 },
      { event: 'failed', id: 'a', attempts: 2, reason: 'bad data' },
      { event: 'accepted', id: 'a' },
      { event: 'completed', id: 'a' },
    ]);
  });

  it('have the action and the time', async () => {
    const { queue, clock, events, next, publish } = await start();
    await publish('a');
    const delivery = await next();
    queue.reportStart(delivery);
    await queue.settle([{ delivery, settlement: discard() }]);
    await queue.purge({ all: true });
    expect(events.map(({ event }) => event)).to.deep.equal(['accepted', 'started', 'failed', 'purged']);
    for (const event of events) expect(event).to.include({ action: 'sum', at: clock.now() });
  });

  it('report nothing about a message that was refused or repeated, nor a late settlement or progress', async () => {
    const { queue, next, told, publish } = await start({ ...roomy, maxLength: 1 });
    const key = { key: 'key', fingerprint: 'x' };
    await queue.publish(messageOf('a'), key);
    await queue.publish(messageOf('b'), key);
    await publish('c').catch(() => {});
    const delivery = await next();
    await queue.settle([{ delivery, settlement: ack }]);
    queue.reportStart(delivery);
    queue.reportProgress(delivery, { fraction: 1 });
    await queue.settle([{ delivery, settlement: discard() }]);
    await queue.settle([{ delivery, settlement: { kind: 'row', result: '{"output":1}' } }]);
    expect(told()).to.deep.equal([
      { event: 'accepted', id: 'a' },
      { event: 'completed', id: 'a' },
    ]);
  });
});

describe('the queue', () => {
  it('calls its listener when messages may be taken', async () => {
    const { queue, calls, next, publish } = await start();
    const expectCall = async (change: () => unknown) => {
      const before = calls.ready;
      await change();
      expect(calls.ready, `${change}`).to.equal(before + 1);
    };
    await expectCall(() => publish('a'));
    const delivery = await next();
    await expectCall(() => queue.settle([{ delivery, settlement: release }]));
    const again = await next();
    await queue.settle([{ delivery: again, settlement: discard() }]);
    await expectCall(() => queue.redrive({ all: true }));
    await queue.pause();
    await expectCall(() => queue.resume());
  });

  it('tells of each pause and resumption once, except a listener that was removed', async () => {
    const { queue } = await start();
    const changes: boolean[] = [];
    queue.onPauseChange((isPaused) => changes.push(isPaused));
    queue.onPauseChange(() => expect.fail('the listener was removed'))();
    for (const change of ['resume', 'pause', 'pause', 'resume', 'resume'] as const) await queue[change]();
    expect(changes).to.deep.equal([true, false]);
  });

  it('shows start and progress of the attempt that runs, and of no other', async () => {
    const { queue, clock, next, publish } = await start();
    await publish('a');
    const shown = async () => {
      const found = await queue.find('a');
      if (found === undefined || !('message' in found)) throw new Error('the task has no message');
      const [read] = await queue.read(['a']);
      expect(read).to.deep.equal(found.message);
      return [found.message.startedAt, found.message.progress?.fraction];
    };
    const first = await next();
    expect(await shown()).to.deep.equal([undefined, undefined]);
    queue.reportStart(first);
    queue.reportProgress(first, { fraction: 0.25 });
    queue.reportProgress(first, { fraction: 0.5 });
    expect(await shown()).to.deep.equal([clock.now(), 0.5]);
    await queue.settle([{ delivery: first, settlement: retry(clock.now()) }]);
    expect(await shown()).to.deep.equal([undefined, undefined]);
    queue.reportStart(await next());
    queue.reportProgress(first, { fraction: 1 });
    expect(await shown()).to.deep.equal([clock.now(), undefined]);
  });

  it('cancels an attempt that has not started, and asks one that runs to end, each time', async () => {
    const { queue, next, told, publish } = await start();
    for (const id of 'abc') await publish(id);
    const [a, b] = [await next(), await next()];
    const asked: string[] = [];
    queue.onCancel((delivery) => {
      asked.push(delivery.id);
      if (delivery.id === 'a') setImmediate(() => void queue.settle([{ delivery, settlement: release }]));
      return delivery.id === 'a';
    });
    told();
    expect(await queue.cancel('a')).to.equal('cancelled');
    for (const _ of [1, 2]) expect(await queue.cancel('b')).to.equal('requested');
    expect(await queue.cancel('c')).to.equal('cancelled');
    expect(asked).to.deep.equal(['a', 'b', 'b']);
    expect(told()).to.deep.equal([
      { event: 'cancelled', id: 'a' },
      { event: 'cancelled', id: 'c' },
    ]);
    expect((await queue.settle([{ delivery: b, settlement: complete() }])).effects).to.deep.equal(['applied']);
    expect((await queue.settle([{ delivery: a, settlement: complete() }])).effects).to.deep.equal(['late']);
    expect(told()).to.deep.equal([{ event: 'completed', id: 'b' }]);
    for (const id of ['b', 'x']) expect(await queue.cancel(id)).to.equal(id === 'b' ? 'ended' : undefined);
  });
});

/** Opens the queue of one node of several, on a store whose reads the spec controls. */
async function openNode({ isPaused = false, answer = Promise.resolve() } = {}) {
  const clock = new ManualClock();
  const test = new TestQueue(sqliteDriver('memory'), roomy);
  await test.open();
  const { store } = test;
  await store.setPaused(isPaused);
  const events: QueueEvent[] = [];
  const node = { receive: (_message: NodeMessage) => {}, miss: () => {}, readyCalls: 0 };
  const reads = {
    isFailing: false,
    failures: 0,
    current: 0,
    mostAtOnce: 0,
    /** Delays the answers of reads that have begun. */
    answer,
  };
  const controlled =
    <Args extends unknown[], Value>(read: (...args: Args) => Awaitable<Value>) =>
    async (...args: Args) => {
      if (reads.isFailing) {
        reads.failures += 1;
        throw new Error('the server does not answer');
      }
      reads.current += 1;
      reads.mostAtOnce = Math.max(reads.mostAtOnce, reads.current);
      const value = await read(...args);
      await reads.answer;
      reads.current -= 1;
      return value;
    };
  store.isPaused = controlled(store.isPaused.bind(store));
  store.cancelRequests = controlled(store.cancelRequests.bind(store));
  const bus: QueueBus = {
    send() {},
    follow() {},
    listen: (onMessage, onMissed) => Object.assign(node, { receive: onMessage, miss: onMissed }),
  };
  const opening = Queue.open({ store, bus, onEvent: (event) => events.push(event), clock });
  void opening.then((queue) => queue.onReady(() => node.readyCalls++));
  return { opening, store, clock, node, reads, events };
}

/** Lets the next read of the tables fail, then the reads after it succeed. */
async function failOnce({ clock, reads }: Awaited<ReturnType<typeof openNode>>, read: () => unknown): Promise<void> {
  const { failures } = reads;
  reads.isFailing = true;
  const done = read();
  await until(() => reads.failures > failures && clock.timers > 0);
  await done;
  reads.isFailing = false;
  clock.advance(1000);
}

describe('the queue of several nodes', () => {
  it('ignores messages that it does not know, such as those of a newer version', async () => {
    const { opening, node, events } = await openNode();
    await opening;
    node.receive({ topic: 'unheard of' } as unknown as NodeMessage);
    expect(events).to.deep.equal([]);
    const accepted: TaskEvent = { event: 'accepted', id: 'a', at: 1 };
    node.receive({ topic: 'event', event: accepted });
    expect(events).to.deep.equal([accepted]);
  });

  for (const [announcement, announce] of [
    ['it is announced', ({ receive }) => receive({ topic: 'pause' })],
    ['messages were missed', ({ miss }) => miss()],
  ] as [string, (node: Awaited<ReturnType<typeof openNode>>['node']) => void][]) {
    it(`learns of a resumption after ${announcement}, though the first read fails`, async () => {
      const opened = await openNode({ isPaused: true });
      const { opening, store, node } = opened;
      const queue = await opening;
      expect(queue.isPaused).to.equal(true);
      await store.setPaused(false);
      await failOnce(opened, () => announce(node));
      await until(() => !queue.isPaused && node.readyCalls > 0);
    });
  }

  it('learns of its own resumption, though the read after the write fails', async () => {
    const opened = await openNode({ isPaused: true });
    const queue = await opened.opening;
    await failOnce(opened, () => queue.resume());
    await until(() => !queue.isPaused);
  });

  it('ends attempts whose cancellation was missed, though the first read fails', async () => {
    const opened = await openNode();
    const { opening, store, node } = opened;
    const queue = await opening;
    const ended: string[] = [];
    queue.onCancel(({ id }) => ended.push(id) === 0);
    await queue.publish(messageOf('a'));
    await queue.take(1, true);
    await store.cancel('a');
    await failOnce(opened, () => node.miss());
    await until(() => ended.length > 0);
    expect(ended).to.deep.equal(['a']);
  });

  it('learns of a pause that is announced while the queue is opened', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { opening, store, node, reads } = await openNode({ answer: promise });
    await until(() => reads.current === 1);
    await store.setPaused(true);
    node.receive({ topic: 'pause' });
    resolve();
    const queue = await opening;
    await until(() => queue.isPaused);
  });

  it('reads the tables again one at a time, and once more for all that is announced meanwhile', async () => {
    const { opening, store, node, reads } = await openNode();
    const queue = await opening;
    const { promise, resolve } = Promise.withResolvers<void>();
    reads.answer = promise;
    node.receive({ topic: 'pause' });
    await until(() => reads.current === 1);
    await store.setPaused(true);
    for (let count = 0; count < 3; count++) node.receive({ topic: 'pause' });
    node.miss();
    resolve();
    await until(() => queue.isPaused);
    expect(reads.mostAtOnce).to.equal(1);
  });

  it('reads nothing again once it is closed', async () => {
    const { opening, clock, node, reads } = await openNode();
    const queue = await opening;
    reads.isFailing = true;
    node.miss();
    await until(() => clock.timers > 0);
    queue.close();
    node.miss();
    expect(clock.timers).to.equal(0);
    clock.advance(60_000);
    await new Promise(setImmediate);
    expect(reads.failures).to.equal(1);
  });
});

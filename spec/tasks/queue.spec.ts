import { setImmediate as turn } from 'node:timers/promises';
import { expect } from 'chai';
import type { Awaitable, Delivery, Report, TaskStore } from '../../db/task-store.ts';
import { type NodeMessage, Queue, type QueueBus } from '../../main/tasks/queue.ts';
import type { QueueEvent, TaskEvent } from '../../main/tasks/task-events.ts';
import { ack, cancel, discard, release } from '../store/settlements.ts';
import { messageOf } from '../store/stage.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { openFreshStore } from '../support/store.ts';
import { until } from '../support/until.ts';

/** Opens a queue in memory, with a record of its events. @param aheadMs of the clock of the store */
async function start({ aheadMs = 0, maxLength = 100 } = {}) {
  const clock = new ManualClock();
  const bounds = { maxLength, maxBytes: 1_000_000, maxKeys: 100 };
  const store = await openFreshStore({ now: () => clock.now() + aheadMs, bounds });
  const events: QueueEvent[] = [];
  const queue = await Queue.open({ store, onEvent: (event) => events.push(event), clock });
  const next = async () => (await queue.take(1, true)).deliveries[0] ?? expect.fail('no message is due');
  /** Returns names and ids of the events since the last call. */
  const told = () => events.splice(0).map((event) => `${event.event} ${'id' in event ? event.id : ''}`);
  return { queue, next, told, clock };
}

describe('the queue', () => {
  it('reports no event of a message that was refused or repeated, or settled or reported late, and one acceptance of a callback', async () => {
    const { queue, next, told } = await start({ maxLength: 1 });
    const key = { key: 'key', fingerprint: 'x' };
    await queue.publish({ ...messageOf('a'), callbackUrl: 'https://example.com/' }, key);
    await queue.publish(messageOf('b'), key);
    await queue.publish(messageOf('c')).catch(() => {});
    const delivery = await next();
    for (const _ of [1, 2]) queue.reportStart(delivery);
    await queue.settle([{ delivery, settlement: ack }]);
    queue.reportStart(delivery);
    queue.reportProgress(delivery, { fraction: 1 });
    await queue.settle([{ delivery, settlement: discard() }]);
    await queue.settle([{ delivery, settlement: { kind: 'row', result: '{"output":1}' } }]);
    const callback = await next();
    await queue.settle([{ delivery: callback, settlement: release }]);
    await next();
    expect(told()).to.deep.equal(['accepted a', 'started a', 'completed a', `accepted ${callback.id}`]);
  });

  it('calls its listener when messages may be taken', async () => {
    const { queue, next, clock } = await start();
    let calls = 0;
    queue.on('ready', () => calls++);
    const expectCall = async (change: () => unknown) => {
      const before = calls;
      await change();
      expect(calls, `${change}`).to.equal(before + 1);
    };
    await queue.publish(messageOf('b'));
    await expectCall(() => queue.cancel('b'));
    await expectCall(() => queue.publish(messageOf('a')));
    const delivery = await next();
    await expectCall(() => queue.settle([{ delivery, settlement: release }]));
    await queue.settle([{ delivery: await next(), settlement: discard() }]);
    await expectCall(() => queue.redrive({}));
    await queue.publish({ ...messageOf('d'), runAt: clock.now() + 1000 });
    await expectCall(() => queue.runNow('d'));
    // A change whose answer was lost may have been written.
    const write = queue.store.setPaused.bind(queue.store);
    queue.store.setPaused = (...state) => write(...state).then(() => Promise.reject());
    await queue.setPaused(true).catch(() => {});
    await expectCall(() => queue.setPaused(false).catch(() => {}));
    // A redrive that ended early may have requeued messages whose answer was lost.
    queue.store.redrive = async () => ({ done: [], remaining: 1 });
    await expectCall(() => queue.redrive({}));
    await expectCall(() => queue.setLimits('c', { rate: { count: 1, ms: 1000 } }, 'api'));
    await queue.publish(messageOf('c', 'c'));
    await queue.take(2, true);
    const rated = await next();
    await expectCall(() => turn(queue.reportStart(rated)));
  });

  it('cancels the attempt that is in flight when the cancellation is written, and waits at most a second for its end', async () => {
    for (const [when, settlement, outcome, ...expected] of [
      ['before', release, 'requested', '1', 'write', '2'],
      ['before', cancel, 'cancelled', '1', 'write'],
      ['after', release, 'cancelled', '1', 'write'],
      ['never', release, 'requested', '1', 'write', '1', 'write'],
    ] as const) {
      const { queue, next, told, clock } = await start();
      await queue.publish(messageOf('a'));
      const delivery = await next();
      const steps: string[] = [];
      queue.onCancel(({ delivery: number }) => {
        steps.push(`${number}`);
        return when !== 'before';
      });
      const settle = () => queue.settle([{ delivery, settlement }]);
      const write = queue.store.cancel.bind(queue.store);
      queue.store.cancel = async (id) => {
        steps.push('write');
        if (when === 'before') await settle();
        if (when === 'before' && settlement === release) await next();
        const cancellation = await write(id);
        void turn().then(when === 'after' ? settle : () => clock.advance(when === 'never' ? 1000 : 0));
        return cancellation;
      };
      while (steps.length < expected.length) expect(await queue.cancel('a')).to.equal(outcome);
      expect([steps, clock.timers]).to.deep.equal([expected, 0]);
      expect(told().includes('cancelled a')).to.equal(outcome === 'cancelled');
    }
  });

  it('cancels all tasks, also those whose time of acceptance is ahead of its clock', async () => {
    const { queue, told } = await start({ aheadMs: 1000 });
    await queue.publish(messageOf('a'));
    expect(await queue.cancelAll({})).to.deep.equal({ count: 1, remaining: 0 });
    expect(told()).to.deep.equal(['accepted a', 'cancelled a']);
  });

  it('passes on what other nodes tell, except for messages that it does not know, such as those of a newer version', async () => {
    const { opening, node, events } = await openNode();
    await opening;
    node.receive({ topic: 'unheard of' } as unknown as NodeMessage);
    expect([events, node.readyCalls]).to.deep.equal([[], 0]);
    node.receive({ topic: 'ready' });
    expect(node.readyCalls).to.equal(1);
    const accepted: TaskEvent = { event: 'accepted', id: 'a', at: 1 };
    node.receive({ topic: 'event', event: accepted });
    expect(events).to.deep.equal([accepted]);
  });
});

type Node = Awaited<ReturnType<typeof openNode>>['node'];

/** Opens the queue of one node of several, on a store whose reads fail, or answer late, as a spec says. */
async function openNode({ isPaused = false, gate = Promise.resolve() } = {}) {
  const clock = new ManualClock();
  const store: TaskStore = await openFreshStore({ now: () => clock.now() });
  await store.setPaused(isPaused);
  const events: QueueEvent[] = [];
  const node = { receive: (_: NodeMessage) => {}, miss: () => {}, readyCalls: 0 };
  const reads = { isFailing: false, failures: 0, current: 0, mostAtOnce: 0, gate };
  const controlled =
    <Args extends unknown[], Value>(read: (...args: Args) => Awaitable<Value>) =>
    async (...args: Args) => {
      reads.failures += Number(reads.isFailing);
      if (reads.isFailing) throw new Error('the server does not answer');
      reads.current += 1;
      reads.mostAtOnce = Math.max(reads.mostAtOnce, reads.current);
      const value = await read(...args);
      await reads.gate;
      reads.current -= 1;
      return value;
    };
  store.isPaused = controlled(store.isPaused.bind(store));
  store.cancelRequests = controlled(store.cancelRequests.bind(store));
  const listen: QueueBus['listen'] = (receive, miss) => Object.assign(node, { receive, miss });
  const sent: string[] = [];
  const bus: QueueBus = { send: ({ topic }) => void sent.push(topic), follow() {}, listen };
  const opening = Queue.open({ store, bus, onEvent: (event) => events.push(event), clock });
  void opening.then((queue) => queue.on('ready', () => node.readyCalls++));
  return { opening, store, clock, node, reads, events, sent };
}

describe('the queue of several nodes', () => {
  for (const [what, announce] of [
    ['it is announced', ({ receive }) => receive({ topic: 'pause' })],
    ['messages were missed', ({ miss }) => miss()],
  ] as [string, (node: Node) => void][]) {
    it(`learns of a resumption and of cancellations after ${what}, though the first read fails`, async () => {
      const { opening, store, node, reads, clock } = await openNode({ isPaused: true });
      const queue = await opening;
      const ended: string[] = [];
      queue.onCancel(({ id }) => ended.push(id) === 0);
      await queue.publish(messageOf('a'));
      await store.setPaused(false);
      await queue.take(1, true);
      await store.cancel('a');
      expect(queue.isPaused).to.equal(true);
      reads.isFailing = true;
      announce(node);
      await until(() => reads.failures > 0 && clock.timers > 0);
      reads.isFailing = false;
      clock.advance(1000);
      await until(() => !queue.isPaused && node.readyCalls > 0 && ended.length > 0);
      expect(ended).to.deep.equal(['a']);
    });
  }

  it('applies changed limits when it stores and announces them, when they are announced, or when messages were missed', async () => {
    const { opening, node, sent } = await openNode();
    let calls = 0;
    const queue = (await opening).on('limits', () => calls++);
    await queue.setLimits('sum', { concurrency: 1 }, 'api');
    expect(sent).to.deep.equal(['limits', 'ready']);
    node.receive({ topic: 'limits' });
    node.miss();
    expect(calls).to.equal(3);
  });

  it('reports progress to the other nodes twice a second, until it is closed', async () => {
    const { opening, store, clock } = await openNode();
    const queue = await opening;
    const reported: unknown[] = [];
    const report = ([{ progress }]: [Report]) => void reported.push(progress?.fraction);
    Object.assign(store, { isShared: true, report });
    await queue.publish(messageOf('a'));
    const [delivery] = (await queue.take(1, true)).deliveries as [Delivery];
    for (const fraction of [1, 2, 3]) {
      queue.reportStart(delivery);
      queue.reportProgress(delivery, { fraction });
      if (fraction === 3) queue.close();
      clock.advance(500);
    }
    expect(reported).to.deep.equal([1, 2]);
  });

  it('learns of a pause that is announced while the queue is opened, and its time', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const { opening, store, node, reads } = await openNode({ gate: promise });
    await until(() => reads.current === 1);
    await store.setPaused(true, 5);
    node.receive({ topic: 'pause' });
    resolve();
    const queue = await opening;
    await until(() => queue.isPaused && queue.pausedAt === 5);
  });

  it('reads the tables again one at a time, once more for all that is announced meanwhile, and before a pause is answered', async () => {
    const { opening, node, reads } = await openNode();
    const queue = await opening;
    const { promise, resolve } = Promise.withResolvers<void>();
    reads.gate = promise;
    node.receive({ topic: 'pause' });
    await until(() => reads.current === 1);
    const paused = queue.setPaused(true).then(() => queue.isPaused);
    for (let count = 0; count < 3; count++) node.receive({ topic: 'pause' });
    node.miss();
    resolve();
    expect(await paused).to.equal(true);
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

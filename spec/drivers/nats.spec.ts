import { mock } from 'node:test';
import { jetstreamManager } from '@nats-io/jetstream';
import { expect } from 'chai';
import { type Queue, QueueFull } from '../../main/tasks/queue/queue.ts';
import { describeWithNats } from '../support/servers.ts';
import { describeDriver } from './conformance.ts';
import { discard, openInbox, publishAll } from './inbox.ts';
import { connection, type NodeOptions, openNode, ownPrefix } from './nats-node.ts';

describeWithNats('NATS', () => {
  const nodes = new WeakMap<Queue, NodeOptions>();
  describeDriver(
    'the NATS queue',
    async (bounds, onEvent) => {
      const nats = await connection();
      const options = { nats, prefix: ownPrefix(nats), bounds, onEvent };
      const queue = await openNode(options);
      nodes.set(queue, options);
      return queue;
    },
    async (closed) => openNode(nodes.get(closed) as NodeOptions),
    ({ body }) => Buffer.byteLength(body),
    25,
  );

  it('lists dead letters without receiving their bodies, and leaves no consumer', async () => {
    const nats = await connection();
    const prefix = ownPrefix(nats);
    const queue = await openNode({ nats, prefix, bounds: { maxBytes: 1_000_000 } });
    const body = 'x'.repeat(50_000);
    for (const id of 'abcd') await queue.publish({ id, body });
    const inbox = openInbox(queue);
    for (const delivery of await inbox.take(4)) await delivery.settle(discard());
    inbox.stop();
    const before = nats.stats().inBytes;
    const [newest] = await queue.newestDeadLetters(3);
    expect(nats.stats().inBytes - before).to.be.below(20_000);
    expect(newest?.bytes).to.be.within(body.length, body.length + 1000);
    expect(await newest?.read()).to.include({ id: 'd', body });
    expect(nats.stats().inBytes - before).to.be.below(2 * body.length);
    const { streams } = await jetstreamManager(nats);
    expect((await streams.info(`${prefix}-letters`)).state.consumer_count).to.equal(0);
  });

  it('is not asked to store a message while the queue is known to be full', async () => {
    const nats = await connection();
    const queue = await openNode({ nats, prefix: ownPrefix(nats), bounds: { maxLength: 1 } });
    await publishAll(queue, 'a');
    const requests = mock.method(nats, 'request');
    const error = await queue.publish({ id: 'b', body: 'b' }).catch((error) => error);
    expect(error).to.be.instanceOf(QueueFull).with.property('message', 'the queue holds 1 messages');
    expect(requests.mock.callCount()).to.equal(0);
  });
});

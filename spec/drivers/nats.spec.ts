import { mock } from 'node:test';
import { expect } from 'chai';
import { type QueueDriver, QueueFull } from '../../main/tasks/queue/driver.ts';
import { describeWithNats } from '../support/servers.ts';
import { describeDriver } from './conformance.ts';
import { publishAll } from './inbox.ts';
import { AtOnce } from './nats-at-once.ts';
import { connection, type NodeOptions, openNode, ownPrefix } from './nats-node.ts';

describeWithNats('NATS', () => {
  const nodes = new WeakMap<QueueDriver, NodeOptions>();
  describeDriver(
    'the NATS queue',
    async (bounds, onEvent) => {
      const nats = await connection();
      const options = { nats, prefix: ownPrefix(nats), bounds, onEvent };
      const queue = new AtOnce(await openNode(options));
      nodes.set(queue, options);
      return queue;
    },
    async (closed) => openNode(nodes.get(closed) as NodeOptions),
  );

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

import { describeWithNats } from '../support/servers.ts';
import { describeDriver } from './conformance.ts';
import { AtOnce } from './nats-at-once.ts';
import { connection, openNode, ownPrefix } from './nats-node.ts';

describeWithNats('NATS', () => {
  describeDriver('the NATS queue', async (bounds, onEvent) => {
    const nats = await connection();
    return new AtOnce(await openNode({ nats, prefix: ownPrefix(nats), bounds, onEvent }));
  });
});

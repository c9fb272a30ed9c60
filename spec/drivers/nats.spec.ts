import { describeWithNats } from '../support/servers.ts';
import { describeDriver } from './conformance.ts';
import { connection, openNode, ownPrefix } from './nats-node.ts';

describeWithNats('NATS', () => {
  describeDriver('the NATS queue', async (bounds, onEvent) => {
    const nats = await connection();
    return openNode({ nats, prefix: ownPrefix(nats), bounds, onEvent });
  });
});

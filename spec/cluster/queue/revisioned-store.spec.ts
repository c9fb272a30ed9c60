import { JetStreamApiError, type JetStreamManager, jetstreamManager } from '@nats-io/jetstream';
import { expect } from 'chai';
import { removeMessage } from '../../../main/cluster/queue/revisioned-store.ts';
import { connection } from '../../drivers/nats-node.ts';
import { afterTest } from '../../support/cleanup.ts';
import { describeWithNats, ownName } from '../../support/servers.ts';

describeWithNats('removeMessage', () => {
  it('removes a message once, wherever it is in the stream', async () => {
    const manager = await jetstreamManager(await connection());
    const name = ownName();
    await manager.streams.add({ name, subjects: [name] });
    afterTest(() => manager.streams.delete(name));
    for (let n = 1; n <= 5; n++) await manager.jetstream().publish(name);
    for (const sequence of [3, 5, 1]) {
      expect(await removeMessage(manager, name, sequence), `message ${sequence}`).to.equal(true);
      expect(await removeMessage(manager, name, sequence), `message ${sequence} again`).to.equal(false);
    }
    expect(await removeMessage(manager, name, 99), 'a message past the end').to.equal(false);
  });
});

describe('removeMessage, of a server that cannot delete', () => {
  it('throws, because the message may still be there', async () => {
    const error = new JetStreamApiError({ code: 500, err_code: 10057, description: 'stream closed' });
    const manager = { streams: { deleteMessage: () => Promise.reject(error) } } as unknown as JetStreamManager;
    expect(await removeMessage(manager, 's', 1).catch((thrown) => thrown)).to.equal(error);
  });
});

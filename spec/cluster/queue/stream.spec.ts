import { JetStreamApiError } from '@nats-io/jetstream';
import { expect } from 'chai';
import type { NatsLink } from '../../../main/cluster/nats-link.ts';
import { Stream } from '../../../main/cluster/queue/stream.ts';
import { connection } from '../../drivers/nats-node.ts';
import { afterTest } from '../../support/cleanup.ts';
import { openLink } from '../../support/nats-server.ts';
import { describeWithNats, ownName } from '../../support/servers.ts';

describeWithNats('Stream.remove', () => {
  it('removes a message once, wherever it is in the stream', async () => {
    const link = await openLink(await connection(), ownName());
    const stream = new Stream(link, 'tasks');
    await stream.setUp({ max_msgs_per_subject: -1 });
    afterTest(() => link.manager.streams.delete(stream.name));
    for (let n = 1; n <= 5; n++) await stream.store('item', '', {});
    for (const sequence of [3, 5, 1]) {
      expect(await stream.remove(sequence), `message ${sequence}`).to.equal(true);
      expect(await stream.remove(sequence), `message ${sequence} again`).to.equal(false);
    }
    expect(await stream.remove(99), 'a message past the end').to.equal(false);
  });
});

describe('Stream.remove, of a server that cannot delete', () => {
  it('throws, because the message may still be there', async () => {
    const error = new JetStreamApiError({ code: 500, err_code: 10057, description: 'stream closed' });
    const link = { manager: { streams: { deleteMessage: () => Promise.reject(error) } } } as unknown as NatsLink;
    expect(await new Stream(link, 'tasks').remove(1).catch((thrown) => thrown)).to.equal(error);
  });
});

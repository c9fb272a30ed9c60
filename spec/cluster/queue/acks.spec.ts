import type { NatsConnection } from '@nats-io/transport-node';
import { expect } from 'chai';
import { Acks } from '../../../main/cluster/queue/acks.ts';

/** Creates acks that reach no server. */
function create() {
  const sent: string[] = [];
  const confirmation = Promise.withResolvers<void>();
  const connection = {
    publish: (reply: string) => sent.push(reply),
    request(reply: string) {
      sent.push(`${reply}?`);
      return confirmation.promise;
    },
  };
  return { sent, confirmation, acks: new Acks({ connection: connection as unknown as NatsConnection }) };
}

describe('Acks', () => {
  it('of one turn are sent in order, and only the last one asks for a confirmation', async () => {
    const { sent, confirmation, acks } = create();
    let confirmed = 0;
    const all = ['a', 'b', 'c'].map((reply) =>
      acks.send(reply).then(() => {
        confirmed += 1;
      }),
    );
    await new Promise(setImmediate);
    expect(sent).to.deep.equal(['a', 'b', 'c?']);
    expect(confirmed, 'no ack is confirmed yet').to.equal(0);
    confirmation.resolve();
    await Promise.all(all);
  });

  it('of another turn are confirmed on their own', async () => {
    const { sent, acks } = create();
    void acks.send('a');
    await new Promise(setImmediate);
    void acks.send('b');
    await new Promise(setImmediate);
    expect(sent).to.deep.equal(['a?', 'b?']);
  });

  it('all fail if the last one is not confirmed', async () => {
    const { confirmation, acks } = create();
    const all = Promise.allSettled([acks.send('a'), acks.send('b')]);
    confirmation.reject(new Error('no answer'));
    expect((await all).map(({ status }) => status)).to.deep.equal(['rejected', 'rejected']);
  });
});

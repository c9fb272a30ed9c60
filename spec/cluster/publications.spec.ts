import { JetStreamApiError } from '@nats-io/jetstream';
import { headers, type Msg, type NatsConnection } from '@nats-io/transport-node';
import { expect } from 'chai';
import { Publications } from '../../main/cluster/publications.ts';

/** Creates publications whose messages reach no server. `answer` answers the n-th message. */
function create(timeoutMs = 60_000) {
  const replies: string[] = [];
  let receive: (error: null, message: Msg) => void = () => {};
  const closed = Promise.withResolvers<void>();
  const connection = {
    subscribe(_subject: string, options: { callback: typeof receive }) {
      receive = options.callback;
    },
    publish: (_subject: string, _payload: string, { reply }: { reply: string }) => replies.push(reply),
    closed: () => closed.promise,
  };
  const publications = new Publications(connection as unknown as NatsConnection, timeoutMs);
  return {
    close: closed.resolve,
    publish: () => publications.publish('P.tasks.a', '{}', headers()),
    answer(n: number, text: string) {
      const message = { subject: replies[n], data: Buffer.from(text), json: () => JSON.parse(text) };
      receive(null, message as unknown as Msg);
    },
  };
}

const failed = (publication: Promise<unknown>) =>
  publication.then(
    () => undefined,
    (error: Error) => error,
  );

describe('Publications', () => {
  it('give each message its own confirmation, in any order', async () => {
    const { publish, answer } = create();
    const [first, second] = [publish(), publish()];
    answer(1, '{"stream":"s","seq":8}');
    answer(0, '{"stream":"s","seq":7,"duplicate":true}');
    expect(await first).to.deep.equal({ stream: 's', seq: 7, duplicate: true });
    expect(await second).to.deep.equal({ stream: 's', seq: 8 });
  });

  it('fail with the error of JetStream', async () => {
    const { publish, answer } = create();
    const publication = failed(publish());
    answer(0, '{"error":{"code":503,"err_code":10077,"description":"maximum messages exceeded"}}');
    const error = await publication;
    expect(error).to.be.instanceOf(JetStreamApiError).with.property('code', 10077);
    expect(error?.message).to.equal('maximum messages exceeded');
  });

  it('fail if no JetStream is there, or if it sends no JSON', async () => {
    const { publish, answer } = create();
    const [absent, broken] = [failed(publish()), failed(publish())];
    answer(0, '');
    answer(1, '{');
    expect((await absent)?.message).to.equal('JetStream does not respond');
    expect(await broken).to.be.instanceOf(SyntaxError);
  });

  it('fail after the timeout, each after its own, and ignore a late confirmation', async () => {
    const { publish, answer } = create(30);
    const fail = async () => {
      const publishedAt = performance.now();
      const error = await failed(publish());
      expect(error?.message).to.equal('JetStream did not confirm the message in time');
      return performance.now() - publishedAt;
    };
    const first = fail();
    await new Promise((resolve) => setTimeout(resolve, 15));
    const second = fail();
    expect(await first).to.be.at.least(30);
    answer(0, '{"stream":"s","seq":7}');
    expect(await second).to.be.at.least(30);
  });

  it('fail as soon as the connection is closed', async () => {
    const { publish, close } = create();
    const publication = failed(publish());
    close();
    expect((await publication)?.message).to.equal('the connection to NATS is closed');
  });
});

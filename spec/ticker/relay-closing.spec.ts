import { mock } from 'node:test';
import { expect } from 'chai';
import { connectRaw, handshake } from '../support/raw-connection.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

const never = new Promise<void>(() => {});

describe('the relay, when it closes', () => {
  afterEach(() => mock.timers.reset());

  it('tells every client with 1001, waits until all of them have left, and lets the HTTP server close', async () => {
    const bundle = await startTickerBundle();
    const token = await bundle.token();
    const clients = await Promise.all([1, 2, 3].map(() => connect(bundle.stream, { token })));
    await Promise.all([bundle.listener.close(never), bundle.relay.close(never)]);
    const expected = { code: 1001, reason: 'server is shutting down' };
    for (const client of clients) expect(await client.closed).to.deep.equal(expected);
    expect(bundle.relay.size).to.equal(0);
    expect(bundle.actors.size).to.equal(1);
    const unsubscribed = bundle.ticker.received.filter(({ topic }) => topic === 'unsubscribe');
    expect(unsubscribed).to.have.lengthOf(3);
  });

  it('cuts off at the deadline those who do not answer', async () => {
    // Mocked, because the timeout of the closing handshake would also disconnect the clients.
    mock.timers.enable({ apis: ['setTimeout'] });
    const bundle = await startTickerBundle();
    const polite = await connect(bundle.stream, { token: await bundle.token() });
    const rude = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
    await rude.until(/"welcome"/);
    const deadline = Promise.withResolvers<void>();
    let done = false;
    const closed = bundle.relay.close(deadline.promise).then(() => {
      done = true;
    });
    expect((await polite.closed).code).to.equal(1001);
    await rude.until(/server is shutting down/);
    expect(done).to.equal(false);
    deadline.resolve();
    await closed;
    await rude.ended;
    await until(() => bundle.relay.size === 0);
    expect(bundle.actors.size).to.equal(1);
  });

  it('is done at once without clients, and may be called again', async () => {
    const { relay } = await startTickerBundle();
    await relay.close(never);
    await relay.close(never);
  });
});

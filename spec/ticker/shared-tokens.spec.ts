import { mock } from 'node:test';
import { expect } from 'chai';
import { openKvTokenStore } from '../../main/cluster/ticker-state.ts';
import { afterTest } from '../support/cleanup.ts';
import { type NatsServer, startNatsServer } from '../support/nats-server.ts';
import { request } from '../support/program.ts';
import { describeWithNats } from '../support/servers.ts';
import { startTickerBundle, type TickerBundle, type TickerBundleOptions } from '../support/ticker-bundle.ts';
import { connect } from '../support/websocket.ts';

const KEY = 'a secret of more than thirty-two bytes';

/** Starts service A as a separate node. */
async function startNode(
  server: NatsServer,
  { maxTokensPerKey = 1000, ...options }: TickerBundleOptions = {},
): Promise<TickerBundle> {
  const store = await openKvTokenStore(await server.link(), { maxTokensPerKey });
  afterTest(() => store.close());
  return startTickerBundle({ intervalMs: 20, ...options, shared: { store, key: KEY } });
}

describeWithNats('the tokens of many nodes', () => {
  it('closes the connections of a token on every node, when it is revoked on one', async () => {
    const server = await startNatsServer();
    const [a, b] = [await startNode(server), await startNode(server)];
    const token = await a.token();
    const [mine, other] = [await connect(b.stream, { token }), await connect(b.stream, { token: await a.token() })];
    const { status } = await request(`${a.url}/auth/token`, {
      method: 'DELETE',
      headers: { Authorization: `Bearer ${token}` },
    });
    expect(status).to.equal(204);
    const { code, reason } = await mine.closed;
    expect([code, reason]).to.deep.equal([4001, 'token revoked']);
    await other.nextOf('ticker');
    const refusal = await connect(b.stream, { token }).catch((error) => error);
    expect(refusal).to.include({ status: 401 });
  });

  it('closes the connections of a token on every node, when newer ones of its key evict it', async () => {
    const server = await startNatsServer();
    const options = { maxTokensPerKey: 2 };
    const [a, b] = [await startNode(server, options), await startNode(server, options)];
    const token = await a.token();
    const mine = await connect(b.stream, { token });
    const other = await connect(a.stream, { token: await b.token() });
    await a.token();
    const { code, reason } = await mine.closed;
    expect([code, reason]).to.deep.equal([4001, 'token revoked']);
    await other.nextOf('ticker');
  });

  it('closes the connections of a token on every node, when it expires', async () => {
    const server = await startNatsServer();
    const options = { lifetimeSeconds: 60 };
    const [a, b] = [await startNode(server, options), await startNode(server, options)];
    mock.timers.enable({ apis: ['Date', 'setTimeout'], now: Date.now() });
    afterTest(() => mock.timers.reset());
    const token = await a.token();
    const clients = [await connect(a.stream, { token }), await connect(b.stream, { token })];
    mock.timers.tick(60_000);
    for (const client of clients) expect((await client.closed).code).to.equal(4003);
  });

  it('responds 500 while the server is away, and still accepts known tokens', async () => {
    const server = await startNatsServer();
    const [a, b] = [await startNode(server), await startNode(server)];
    const token = await a.token();
    await connect(b.stream, { token });
    const unheard = await a.token();
    await server.kill();
    const exchange = { method: 'POST', body: JSON.stringify({ api_key: a.apiKey }) };
    for (const { status, body } of [
      await request(`${a.url}/auth/token`, exchange),
      await request(`${a.url}/auth/token`, { method: 'DELETE', headers: { Authorization: `Bearer ${token}` } }),
    ])
      expect([status, body]).to.deep.equal([500, { error: 'token store unavailable' }]);
    for (const { stream } of [a, b]) await (await connect(stream, { token })).nextOf('ticker');
    expect(JSON.stringify([a.lines, b.lines]))
      .to.not.include(token)
      .and.not.include(unheard);
  });
});

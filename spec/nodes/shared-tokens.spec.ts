import { expect } from 'chai';
import { NodeTokenStore } from '../../main/nodes/token-store.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { request, untilAnswer } from '../support/program.ts';
import { describeWithPostgres, migratedSchema, type Schema } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { startTickerBundle, type TickerBundle, type TickerBundleOptions } from '../support/ticker-bundle.ts';
import { connect } from '../support/websocket.ts';
import { openBus, openDatabase } from './parts.ts';

const KEY = 'a secret of more than thirty-two bytes';

/** Starts service A as a separate node. */
async function startNode(
  { url }: Pick<Schema, 'url'>,
  { maxTokensPerKey = 1000, ...options }: TickerBundleOptions = {},
): Promise<TickerBundle> {
  const { bus, log } = await openBus(url);
  const parts = { database: openDatabase(url), bus, clock: systemClock, log };
  const store = await new NodeTokenStore({ ...parts, maxTokensPerKey }).open();
  afterTest(() => store.close());
  return startTickerBundle({ intervalMs: 20, ...options, shared: { store, key: KEY } });
}

describeWithPostgres('the tokens of many nodes', () => {
  it('refuses tokens with 503, never 401, while the server is away, and keeps sockets open', async () => {
    const schema = await migratedSchema();
    const way = await severable(schema.url);
    const [a, b] = [await startNode(way), await startNode(way)];
    const token = await a.token();
    const client = await connect(b.stream, { token });
    const unheard = await a.token();
    way.cut();
    const statuses = new Set<number>();
    for (const [node, used] of [
      [a, token],
      [b, token],
      [b, unheard],
    ] as const) {
      const headers = { Authorization: `Bearer ${used}` };
      const { body } = await untilAnswer(`${node.url}/prices/history`, ({ status }) => status !== 200, { headers });
      expect(body).to.deep.equal({ error: 'token store unavailable' });
      for (const [path, method] of [
        ['/prices/history', 'GET'],
        ['/auth/token', 'DELETE'],
        ['/ws/ticker', 'GET'],
      ])
        statuses.add((await request(`${node.url}${path}`, { method: `${method}`, headers })).status);
    }
    expect([...statuses]).to.deep.equal([503]);
    const exchange = { method: 'POST', body: JSON.stringify({ api_key: a.apiKey }) };
    const unavailable = { status: 500, body: { error: 'token store unavailable' } };
    expect(await request(`${a.url}/auth/token`, exchange)).to.deep.include(unavailable);
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
    way.mend();
    const headers = { Authorization: `Bearer ${unheard}` };
    await untilAnswer(`${b.url}/prices/history`, ({ status }) => status === 200, { headers });
    expect(JSON.stringify([a.lines, b.lines]))
      .to.not.include(token)
      .and.not.include(unheard);
  });
});

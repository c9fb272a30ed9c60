import { expect } from 'chai';
import { post, startServices } from '../support/program.ts';
import { connect, type StreamMessage } from '../support/websocket.ts';

const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

type Entry = { symbol: string; price: number; timestamp: number };
type Prices = Record<string, Entry>;

const pricesOf = ({ data }: StreamMessage): Prices =>
  Object.fromEntries(data.map((each: Entry) => [each.symbol, each]));

describe('service A in a process of its own', () => {
  it('exchanges the logged API key for a token, with which it streams prices once per second', async () => {
    const startedAt = Math.floor(Date.now() / 1000);
    const services = await startServices();
    const { status, headers, body } = await post(`${services.ticker}/auth/token`, { api_key: services.apiKey });
    expect([status, headers.get('access-control-allow-origin')]).to.deep.equal([200, '*']);
    expect(body).to.have.all.keys('token', 'user_id', 'role', 'expires_in');
    expect(body).to.include({ user_id: 'demo', role: 'user', expires_in: 3600 });

    const before = Math.floor(Date.now() / 1000);
    const client = await connect(services.stream, { token: body.token });
    const relay = JSON.parse(client.response.headers['x-ws-relay'] as string);
    expect(relay).to.have.all.keys('target_pid', 'metadata');
    expect(relay.target_pid).to.be.a('string');
    expect(relay.metadata.user_id).to.equal('demo');
    expect(relay.metadata.auth_time).to.be.within(before, Date.now() / 1000 + 1);

    expect(await client.next()).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
    const snapshot = pricesOf(await client.next());
    expect(Object.keys(snapshot)).to.have.members(SYMBOLS);
    for (const entry of Object.values(snapshot)) {
      expect(entry).to.have.all.keys('symbol', 'price', 'timestamp');
      expect(entry.price).to.equal(Math.round(entry.price * 100) / 100);
      expect(entry.timestamp).to.be.within(startedAt, Date.now() / 1000 + 1);
    }
    const ticks: Prices[] = [];
    while (ticks.length < 4) ticks.push(pricesOf(await client.nextOf('ticker')));
    const at = (tick: number, symbol = 'BTC-USD') => ticks[tick]?.[symbol] as Entry;
    for (const tick of [1, 2, 3])
      for (const symbol of SYMBOLS) {
        const { price } = at(tick - 1, symbol);
        expect(Math.abs(at(tick, symbol).price - price)).to.be.at.most(price * 0.001 + 0.005);
      }
    // Three intervals of a second. On a loaded machine the first tick may be late, and ticks may be skipped.
    expect(at(3).timestamp - at(0).timestamp).to.be.within(2, 30);
  });
});

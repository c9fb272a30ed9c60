import { expect } from 'chai';
import { post, startServices } from '../support/program.ts';
import { connect, type StreamMessage } from '../support/websocket.ts';

const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

type Entry = { symbol: string; price: number; timestamp: number };

describe('service A in a process of its own', () => {
  it('exchanges the logged API key for a token, streams a price walk with it, and never logs it', async () => {
    const startedAt = Math.floor(Date.now() / 1000);
    const services = await startServices({ env: { LOG_LEVEL: 'trace' } });
    const { status, headers, body } = await post(`${services.ticker}/auth/token`, { api_key: services.apiKey });
    expect(status).to.equal(200);
    expect(headers.get('access-control-allow-origin')).to.equal('*');
    expect(body).to.have.all.keys('token', 'user_id', 'role', 'expires_in');
    expect(body).to.include({ user_id: 'demo', role: 'user', expires_in: 3600 });

    const before = Math.floor(Date.now() / 1000);
    const client = await connect(services.stream, { token: body.token });
    const relay = JSON.parse(client.response.headers['x-ws-relay'] as string);
    expect(relay).to.have.all.keys('target_pid', 'metadata');
    expect(relay.target_pid).to.be.a('string');
    expect(relay.metadata.user_id).to.equal('demo');
    expect(relay.metadata.auth_time).to.be.within(before, Date.now() / 1000);

    expect(await client.next()).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
    const snapshot = await client.next();
    const prices = ({ data }: StreamMessage) => new Map<string, Entry>(data.map((each: Entry) => [each.symbol, each]));
    expect([...prices(snapshot).keys()]).to.have.members(SYMBOLS);
    for (const entry of snapshot.data) {
      expect(entry).to.have.all.keys('symbol', 'price', 'timestamp');
      expect(entry.price).to.equal(Math.round(entry.price * 100) / 100);
      expect(entry.timestamp).to.be.within(startedAt, Date.now() / 1000);
    }
    let earlier = prices(await client.nextOf('ticker'));
    const first = earlier.get('BTC-USD') as Entry;
    for (let tick = 0; tick < 3; tick++) {
      const later = prices(await client.nextOf('ticker'));
      for (const [symbol, { price }] of earlier)
        expect(Math.abs((later.get(symbol) as Entry).price - price)).to.be.at.most(price * 0.001 + 0.005);
      earlier = later;
    }
    // Three intervals of a second. On a loaded machine the first tick may be late, and ticks may be skipped.
    expect((earlier.get('BTC-USD') as Entry).timestamp - first.timestamp).to.be.within(2, 30);

    await connect(`${services.stream}?token=${body.token}`);
    await connect(`${services.stream}?token=${body.token.slice(1)}`).catch(() => {});
    services.child.kill('SIGTERM');
    await services.exited;
    expect(services.output() + services.errors()).to.not.include(body.token.slice(20));
  });
});

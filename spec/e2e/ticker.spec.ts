import { expect } from 'chai';
import { onceForSuite } from '../support/cleanup.ts';
import { post, request, startServices } from '../support/program.ts';
import { connect, Refused, type StreamClient } from '../support/websocket.ts';

const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

describe('service A, end to end', () => {
  const loadedAt = Math.floor(Date.now() / 1000);
  const services = onceForSuite(() => startServices({ env: { LOG_LEVEL: 'trace', TICK_INTERVAL_MS: '60000' } }));

  it('exchanges the logged API key for a token that opens the stream', async () => {
    const { ticker, stream, apiKey } = services();
    const { status, headers, body } = await post(`${ticker}/auth/token`, { api_key: apiKey });
    expect(status).to.equal(200);
    expect(headers.get('access-control-allow-origin')).to.equal('*');
    expect(body).to.have.all.keys('token', 'user_id', 'role', 'expires_in');
    expect(body).to.include({ user_id: 'demo', role: 'user', expires_in: 3600 });

    const before = Math.floor(Date.now() / 1000);
    const client = await connect(stream, { token: body.token });
    const relay = JSON.parse(client.response.headers['x-ws-relay'] as string);
    expect(relay).to.have.all.keys('target_pid', 'metadata');
    expect(relay.target_pid).to.be.a('string');
    expect(relay.metadata.user_id).to.equal('demo');
    expect(relay.metadata.auth_time).to.be.within(before, Date.now() / 1000);

    expect(await client.next()).to.deep.equal({ type: 'welcome', user_id: 'user:demo' });
    const snapshot = await client.next();
    expect(snapshot).to.have.all.keys('type', 'data');
    expect(snapshot.data.map((entry: { symbol: string }) => entry.symbol)).to.have.members(SYMBOLS);
    for (const entry of snapshot.data) {
      expect(entry).to.have.all.keys('symbol', 'price', 'timestamp');
      expect(entry.price).to.equal(Math.round(entry.price * 100) / 100);
      expect(entry.timestamp).to.be.within(loadedAt, Date.now() / 1000);
    }
  });

  it('answers ping with pong and ignores everything else', async () => {
    const { stream, token } = services();
    const client = await connect(stream, { token: await token() });
    await client.nextOf('ticker');
    const ignored = ['', 'x', '{', '[]', 'null', '1e400', '"ping"', '{"type":"pong"}', '["ping"]', '{"type":["ping"]}'];
    for (const text of ignored) client.socket.send(text);
    client.socket.send(Buffer.from('{"type":"ping"}'));
    client.socket.send(JSON.stringify({ type: 'subscribe', symbol: 'BTC-USD' }));
    client.socket.send('{"type":"ping"}');
    expect(await client.next()).to.deep.equal({ type: 'pong' });
    client.socket.send('{"type":"ping"}');
    expect(await client.next()).to.deep.equal({ type: 'pong' });
  });

  it('takes the token by subprotocol and by query as well, and selects only its own subprotocol', async () => {
    const { stream, token } = services();
    const bearer = await token();
    const browser = await connect(stream, {
      protocols: ['ticker.v1', `bearer.${bearer}`],
      origin: 'https://example.org',
    });
    expect(browser.socket.protocol).to.equal('ticker.v1');
    expect(browser.response.headers['access-control-allow-origin']).to.equal('*');
    const tool = await connect(`${stream}?token=${bearer}`);
    expect((await tool.next()).type).to.equal('welcome');
  });

  it('refuses the upgrade without a valid token, as plain HTTP', async () => {
    const { stream, token } = services();
    const bearer = await token();
    const tampered = `${bearer.slice(0, -2)}${bearer.endsWith('AA') ? 'BB' : 'AA'}`;
    for (const options of [
      {},
      { token: '' },
      { token: 'x' },
      { token: tampered },
      { protocols: ['ticker.v1', 'bearer.x'] },
    ]) {
      const refused = await connect(stream, options).catch((error: unknown) => error);
      expect(refused).to.be.instanceOf(Refused);
      expect(refused).to.include({ status: 401 });
      expect((refused as Refused).body).to.deep.equal({ error: 'authentication required' });
    }
  });

  it('answers 405, 401 and 426 at the stream without an upgrade', async () => {
    const { ticker, token } = services();
    const url = `${ticker}/ws/ticker`;
    const authorization = { Authorization: `Bearer ${await token()}` };
    for (const method of ['POST', 'PUT', 'DELETE']) {
      const { status, body, headers } = await request(url, { method, headers: authorization });
      expect({ status, body }).to.deep.equal({ status: 405, body: { error: 'method not allowed' } });
      expect(headers.get('allow')).to.equal('GET');
    }
    const anonymous = await request(url);
    expect(anonymous).to.deep.include({ status: 401, body: { error: 'authentication required' } });
    const plain = await request(url, { headers: authorization });
    expect(plain).to.deep.include({ status: 426, body: { error: 'upgrade required' } });
  });

  it('answers a preflight on the public and on the WebSocket router', async () => {
    const { ticker } = services();
    for (const path of ['/auth/token', '/ws/ticker']) {
      const { status, headers } = await request(`${ticker}${path}`, {
        method: 'OPTIONS',
        headers: {
          Origin: 'https://example.org',
          'Access-Control-Request-Method': 'POST',
          'Access-Control-Request-Headers': 'authorization',
        },
      });
      expect(status).to.equal(204);
      expect(headers.get('access-control-allow-origin')).to.equal('*');
      expect(headers.get('access-control-allow-headers')).to.equal('authorization');
    }
  });

  // The last test, because it ends the process.
  it('never writes a token to its log', async () => {
    const { child, exited, output, errors, stream, token } = services();
    const bearer = await token();
    await connect(stream, { token: bearer });
    await connect(`${stream}?token=${bearer}`);
    await connect(`${stream}?token=${bearer.slice(1)}`).catch(() => {});
    child.kill('SIGTERM');
    await exited;
    expect(output() + errors()).to.not.include(bearer.slice(20));
  });
});

describe('the stream of service A, end to end', () => {
  const services = onceForSuite(() => startServices());

  it('streams updates a second apart, each price within 0.1 % of the one before', async () => {
    const { stream, token } = services();
    const client = await connect(stream, { token: await token() });
    const prices = async () => {
      const { data } = await client.nextOf('ticker');
      return new Map<string, { price: number; timestamp: number }>(
        data.map((entry: { symbol: string; price: number; timestamp: number }) => [entry.symbol, entry]),
      );
    };
    await prices();
    let earlier = await prices();
    const first = earlier.get('BTC-USD')?.timestamp as number;
    for (let tick = 0; tick < 3; tick++) {
      const later = await prices();
      for (const symbol of SYMBOLS) {
        const [was, is] = [earlier.get(symbol), later.get(symbol)];
        if (was === undefined || is === undefined) throw new Error(`${symbol} is missing`);
        expect(Math.abs(is.price - was.price)).to.be.at.most(was.price * 0.001 + 0.005);
      }
      earlier = later;
    }
    // Three intervals. On a loaded machine the first tick may be late, and ticks may be skipped.
    expect((earlier.get('BTC-USD')?.timestamp as number) - first).to.be.within(2, 30);
  });

  it('sends the same prices to every client', async () => {
    const { stream, token } = services();
    const bearer = await token();
    const clients = await Promise.all(Array.from({ length: 20 }, () => connect(stream, { token: bearer })));
    // The last client has its snapshot, so all clients receive the same ticks from here on.
    const last = clients.at(-1) as StreamClient;
    await last.nextOf('ticker');
    const ticks = [JSON.stringify(await last.nextOf('ticker')), JSON.stringify(await last.nextOf('ticker'))];
    for (const client of clients.slice(0, -1)) {
      while (JSON.stringify(await client.next()) !== ticks[0]);
      expect(JSON.stringify(await client.next())).to.equal(ticks[1]);
    }
  });

  it('no longer takes a token that has expired, while a socket that it opened goes on', async () => {
    const { stream, ticker, apiKey } = await startServices({
      env: { TOKEN_LIFETIME_SECONDS: '3', TICK_INTERVAL_MS: '100' },
    });
    const { body } = await post(`${ticker}/auth/token`, { api_key: apiKey });
    expect(body.expires_in).to.equal(3);
    const client = await connect(stream, { token: body.token });
    const expired = (message: { data: { timestamp: number }[] }) => (message.data[0]?.timestamp ?? 0) * 1000;
    const until = Date.now() + 4000;
    let last = await client.nextOf('ticker');
    while (expired(last as never) < until) last = await client.nextOf('ticker');
    const refused = await connect(stream, { token: body.token }).catch((error: unknown) => error);
    expect(refused).to.include({ status: 401 });
    await client.nextOf('ticker');
  });
});

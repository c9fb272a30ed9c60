import { expect } from 'chai';
import { systemClock } from '../../workers/shared/clock.ts';
import { request } from '../support/program.ts';
import { connectRaw, handshake, parseResponse } from '../support/raw-connection.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { connect, Refused } from '../support/websocket.ts';

type ConnectOptions = NonNullable<Parameters<typeof connect>[1]>;

async function refusal(url: string, options?: ConnectOptions): Promise<Refused> {
  const refused = await connect(url, options).catch((error: unknown) => error);
  if (!(refused instanceof Refused)) throw new Error(`not refused: ${refused}`);
  return refused;
}

function expectRefusal(refused: Refused, status: number, error: string) {
  expect(refused).to.deep.include({ status, body: { error } });
  expect(refused.headers).to.include({ 'access-control-allow-origin': '*' });
  expect(refused.headers).to.not.have.property('x-ws-relay');
}

const relayOf = ({ response }: Awaited<ReturnType<typeof connect>>) =>
  JSON.parse(response.headers['x-ws-relay'] as string);

describe('GET /ws/ticker', () => {
  it('tells in X-WS-Relay which handler serves the connection', async () => {
    const bundle = await startTickerBundle();
    const before = Math.floor(Date.now() / 1000);
    const client = await connect(bundle.stream, { token: await bundle.token('someone') });
    expect(client.response.statusCode).to.equal(101);
    expect(client.response.rawHeaders).to.include('X-WS-Relay');
    const relay = relayOf(client);
    expect(relay).to.have.all.keys('target_pid', 'metadata');
    expect(relay.metadata).to.have.all.keys('user_id', 'auth_time');
    expect(relay.metadata.user_id).to.equal('someone');
    expect(relay.metadata.auth_time).to.be.within(before, Date.now() / 1000 + 1);
    expect(relay.metadata.auth_time % 1).to.equal(0);
    expect(await bundle.ticker.next()).to.include({ topic: 'subscribe', handler_pid: relay.target_pid });
    expect(await client.next()).to.deep.equal({ type: 'welcome', user_id: 'user:someone' });
  });

  it('gives every connection a handler of its own, with one token or several', async () => {
    const bundle = await startTickerBundle();
    const token = await bundle.token();
    const options = [{ token }, { token }, { token: await bundle.token() }];
    const clients = await Promise.all(options.map((each) => connect(bundle.stream, each)));
    expect(new Set(clients.map((client) => relayOf(client).target_pid)).size).to.equal(3);
  });

  for (const userId of ['jürgen', '名前', 'a"b\\c', 'smile 🙂', 'tab\tand\nline']) {
    it(`serves the user ${JSON.stringify(userId)}`, async () => {
      const bundle = await startTickerBundle();
      const client = await connect(bundle.stream, { token: await bundle.token(userId) });
      expect(relayOf(client).metadata.user_id).to.equal(userId);
      expect(await client.next()).to.deep.equal({ type: 'welcome', user_id: `user:${userId}` });
    });
  }

  it('allows any origin', async () => {
    const bundle = await startTickerBundle();
    const token = await bundle.token();
    for (const origin of [undefined, 'https://example.org', 'null', 'chrome-extension://x']) {
      const client = await connect(bundle.stream, { token, ...(origin !== undefined && { origin }) });
      expect(client.response.headers['access-control-allow-origin'], origin).to.equal('*');
    }
    const { status, headers } = await request(`${bundle.url}/ws/ticker`, {
      method: 'OPTIONS',
      headers: {
        Origin: 'https://example.org',
        'Access-Control-Request-Method': 'GET',
        'Access-Control-Request-Headers': 'authorization',
      },
    });
    expect(status).to.equal(204);
    expect(headers.get('access-control-allow-origin')).to.equal('*');
    expect(headers.get('access-control-allow-headers')).to.equal('authorization');
  });

  it('takes the token as a subprotocol, and never selects it', async () => {
    const bundle = await startTickerBundle();
    const bearer = `bearer.${await bundle.token()}`;
    for (const protocols of [
      ['ticker.v1', bearer],
      [bearer, 'other', 'ticker.v1'],
    ])
      expect((await connect(bundle.stream, { protocols })).socket.protocol).to.equal('ticker.v1');
    const { port } = bundle.listener;
    for (const offered of [bearer, `${bearer}, other`]) {
      const raw = await connectRaw(port, ...handshake('/ws/ticker'), `Sec-WebSocket-Protocol: ${offered}`);
      const response = await raw.until(/\r\n\r\n/);
      expect(response).to.match(/^HTTP\/1.1 101 /);
      expect(response).to.not.match(/sec-websocket-protocol/i);
    }
  });

  it('takes the token from the query', async () => {
    const bundle = await startTickerBundle();
    const client = await connect(`${bundle.stream}?token=${await bundle.token()}`);
    expect((await client.next()).type).to.equal('welcome');
  });

  it('answers 401 without a valid token, to a handshake and without one', async () => {
    const bundle = await startTickerBundle();
    const token = await bundle.token();
    const cases: ConnectOptions[] = [
      {},
      { token: '' },
      { token: 'x' },
      { token: token.slice(0, -1) },
      { protocols: ['ticker.v1'] },
      { protocols: ['ticker.v1', `bearer.${token}x`] },
      { headers: { Authorization: `Basic ${token}` } },
    ];
    for (const options of cases) {
      const refused = await refusal(bundle.stream, options);
      expectRefusal(refused, 401, 'authentication required');
      expect(refused.headers['www-authenticate']).to.equal('Bearer');
    }
    expectRefusal(await refusal(`${bundle.stream}?token=${token}x`), 401, 'authentication required');
    const plain = await request(`${bundle.url}/ws/ticker`);
    expect(plain).to.deep.include({ status: 401, body: { error: 'authentication required' } });
    expect(plain.headers.get('access-control-allow-origin')).to.equal('*');
    expect(bundle.actors.size).to.equal(1);
  });

  it('answers 401 to a token from its last second on, while the connection that it opened goes on', async () => {
    let shiftMs = 0;
    const clock = { ...systemClock, now: () => 1_790_000_000_000 + shiftMs };
    const bundle = await startTickerBundle({ lifetimeSeconds: 60, clock });
    const token = await bundle.token();
    shiftMs = 59_999;
    const client = await connect(bundle.stream, { token });
    shiftMs = 60_000;
    expectRefusal(await refusal(bundle.stream, { token }), 401, 'authentication required');
    client.socket.send('{"type":"ping"}');
    await client.nextOf('pong');
  });

  it('answers 503 when the token store is closed', async () => {
    const bundle = await startTickerBundle();
    const token = await bundle.token();
    await bundle.tokens.store.close();
    const { status, body } = await refusal(bundle.stream, { token });
    expect(status).to.equal(503);
    expect(body).to.have.all.keys('error');
    expect(bundle.actors.size).to.equal(1);
  });

  it('answers 426 to a valid token without a handshake', async () => {
    const bundle = await startTickerBundle();
    const headers = { Authorization: `Bearer ${await bundle.token()}` };
    const answer = await request(`${bundle.url}/ws/ticker`, { headers });
    expect(answer).to.deep.include({ status: 426, body: { error: 'upgrade required' } });
    expect(answer.headers.get('upgrade')).to.equal('websocket');
    expect(answer.headers.get('access-control-allow-origin')).to.equal('*');
    expect(answer.headers.has('x-ws-relay')).to.equal(false);
    expect(bundle.actors.size).to.equal(1);
  });

  it('answers 405 to other methods, before it looks at the token', async () => {
    const bundle = await startTickerBundle();
    for (const authorization of [`Bearer ${await bundle.token()}`, 'Bearer x']) {
      for (const method of ['POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']) {
        const headers = { Authorization: authorization };
        const answer = await request(`${bundle.url}/ws/ticker`, { method, headers });
        expect(answer, method).to.deep.include({ status: 405, body: { error: 'method not allowed' } });
        expect(answer.headers.get('allow'), method).to.equal('GET');
        expect(answer.headers.get('access-control-allow-origin'), method).to.equal(method === 'OPTIONS' ? null : '*');
      }
    }
  });

  it('answers 405 to a handshake with another method', async () => {
    const { listener } = await startTickerBundle();
    const [, ...headers] = handshake('/ws/ticker');
    const raw = await connectRaw(listener.port, 'POST /ws/ticker HTTP/1.1', ...headers, 'Content-Length: 0');
    const { status, body } = parseResponse(await raw.until(/}\n$/));
    expect({ status, body }).to.deep.equal({ status: 405, body: '{"error":"method not allowed"}\n' });
  });

  it('answers 500 when the handler cannot be created', async () => {
    const bundle = await startTickerBundle({
      replace: () => ({
        createHandler() {
          throw new Error('no more handlers');
        },
      }),
    });
    const refused = await refusal(bundle.stream, { token: await bundle.token() });
    expectRefusal(refused, 500, 'failed to create handler');
    expect(bundle.lines.at(-1)).to.include({ msg: 'failed to create handler', path: '/ws/ticker' });
  });

  it('answers 500 when a policy forbids the handler', async () => {
    const bundle = await startTickerBundle();
    const policy = { name: 'p', group: 'user', actions: ['create'], resources: ['handler'] };
    const issue = (...effects: ('allow' | 'deny')[]) =>
      bundle.tokens.issue(
        { user_id: 'demo', role: 'user', apiKey: 'key' },
        effects.map((effect) => ({ ...policy, effect })),
        '',
      );
    for (const token of [await issue(), await issue('deny'), await issue('allow', 'deny')])
      expectRefusal(await refusal(bundle.stream, { token }), 500, 'failed to create handler');
    expect(bundle.actors.size).to.equal(1);
    expect((await connect(bundle.stream, { token: await issue('allow') })).response.statusCode).to.equal(101);
  });
});

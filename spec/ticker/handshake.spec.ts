import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import type { TickerAppOptions } from '../../main/ticker/service.ts';
import type { Identity } from '../../main/ticker/tokens.ts';
import { HANDSHAKES_PER_TURN } from '../../main/ticker/ws-relay.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { afterTest, onceForSuite } from '../support/cleanup.ts';
import { request } from '../support/program.ts';
import { connectHalfOpen, connectRaw, handshake, parseResponse } from '../support/raw-connection.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { countTurns, until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';

/** Lines of a handshake without a header, and with other lines at the end. */
const lacking =
  (name: string, ...lines: string[]) =>
  (good: string[]) => [...good.filter((line) => !line.startsWith(name)), ...lines];

/** A plain request, with a valid token if `bears`. */
const plain =
  (method: string, path = '/ws/ticker', bears = true) =>
  (good: string[]) => [
    `${method} ${path} HTTP/1.1`,
    ...good.filter((line) => line.startsWith('Host') || (bears && line.startsWith('Authorization'))),
    'Connection: close',
  ];
const to = (path: string) => () => handshake(path);

const bearing = (query: string, authorization?: string, protocols?: string) => [
  ...handshake(`/ws/ticker${query}`),
  ...(authorization === undefined ? [] : [`Authorization: ${authorization}`]),
  ...(protocols === undefined ? [] : [`Sec-WebSocket-Protocol: ${protocols}`]),
];

const malformed = [
  lacking('Sec-WebSocket-Key'),
  ...['x', ''].map((key) => lacking('Sec-WebSocket-Key', `Sec-WebSocket-Key: ${key}`)),
  lacking('Sec-WebSocket-Version'),
  ...['7', 'x'].map((version) => lacking('Sec-WebSocket-Version', `Sec-WebSocket-Version: ${version}`)),
  ...['a b', 'a,a', ''].map((protocols) => lacking('no header', `Sec-WebSocket-Protocol: ${protocols}`)),
];
const unauthorized = [
  ...[to('/ws/ticker'), plain('GET', '/ws/ticker', false)],
  (good: string[]) => good.map((line) => (line.startsWith('Authorization') ? line.slice(0, -1) : line)),
  (good: string[]) => good.map((line) => (line.startsWith('Authorization') ? `${line}.Zm9vdGVy` : line)),
];
const posted = [
  (good: string[]) => ['POST /ws/ticker HTTP/1.1', ...good.slice(1), 'Connection: close', 'Content-Length: 0'],
  ...['POST', 'PUT', 'PATCH', 'DELETE'].flatMap((method) => [plain(method), plain(method, '/ws/ticker', false)]),
];

/** Refused handshakes by status and error, with a pattern of the headers. Each is the valid one, changed. */
const refusals: [status: number, error: string, headers: RegExp, changes: ((good: string[]) => string[])[]][] = [
  [400, 'invalid WebSocket handshake', /\r\nSec-WebSocket-Version: 13/, malformed],
  [401, 'authentication required', /\r\nWWW-Authenticate: Bearer\r\n/i, unauthorized],
  [405, 'method not allowed', /\r\nAllow: GET\r\n/i, posted],
  [405, 'method not allowed', /\r\nAllow: POST, DELETE, OPTIONS\r\n/i, [to('/auth/token')]],
  [426, 'upgrade required', /\r\nUpgrade: websocket\r\n/i, [plain('GET')]],
  [200, '', /./, ['/', '/ws', '/ws/other', '/ws/ticker/', '/WS/Ticker'].map(to)],
];

type Check = (verify: () => Promise<Identity | undefined>, tokens: TickerBundle['tokens']) => unknown;

/** Starts service A with `check` around its token check. */
const startChecking = (check: Check, more: Partial<TickerAppOptions> = {}) =>
  startTickerBundle({
    replace: ({ tokens }) => {
      const verify = (token: string) => check(() => tokens.verify(token), tokens as TickerBundle['tokens']);
      return { ...more, tokens: Object.assign(Object.create(tokens), { verify }) };
    },
  });

/** Starts service A with a token check that waits for `open()`, and a handshake that waits for its check. */
async function startGated(more: Partial<TickerAppOptions> = {}) {
  let waiting = 0;
  const gate = Promise.withResolvers<void>();
  const check: Check = async (verify) => {
    waiting++;
    await gate.promise;
    return verify();
  };
  const bundle = await startChecking(check, more);
  afterTest(() => gate.resolve());
  const raw = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
  await until(() => waiting === 1);
  return { bundle, raw, open: gate.resolve, waiting: () => waiting };
}

/** Sends many handshakes, which the relay gets in one turn of the event loop. */
async function shakeHandsAtOnce(count: number, { listener, token }: TickerBundle): Promise<void> {
  const { server } = listener;
  const [relay] = server.listeners('upgrade');
  const held: Parameters<NonNullable<typeof relay>>[] = [];
  server.removeAllListeners('upgrade').on('upgrade', (...upgrade) => held.push(upgrade));
  const lines = handshake('/ws/ticker', await token());
  await Promise.all(Array.from({ length: count }, () => connectRaw(listener.port, ...lines)));
  await until(() => held.length === count);
  for (const upgrade of held) relay?.apply(server, upgrade);
}

/** Sends a handshake without a token. The client keeps its side of the refused connection open. */
const refuseHalfOpen = async ({ listener }: TickerBundle) =>
  (await connectHalfOpen(listener.port, ...handshake())).until(/authentication required/);

describe('a handshake', () => {
  const shared = onceForSuite(() => startTickerBundle());

  it('with a valid token tells in X-WS-Relay which handler serves the connection, one for each, whatever the name of the user', async () => {
    const bundle = shared();
    const handlers = new Set();
    const before = Math.floor(systemClock.now() / 1000);
    for (const userId of ['jürgen', '名前', 'a"b\\c', 'smile 🙂', 'tab\tand\nline']) {
      const token = await bundle.token(userId);
      for (const client of [await connect(bundle.stream, { token }), await connect(bundle.stream, { token })]) {
        expect(client.response.statusCode).to.equal(101);
        expect(client.response.rawHeaders).to.include('X-WS-Relay');
        const { metadata, target_pid, ...others } = JSON.parse(client.response.headers['x-ws-relay'] as string);
        expect(others).to.deep.equal({});
        expect(metadata).to.deep.equal({ user_id: userId, auth_time: Math.floor(metadata.auth_time) });
        expect(metadata.auth_time).to.be.within(before, systemClock.now() / 1000 + 1);
        expect(await bundle.ticker.next()).to.include({ topic: 'subscribe', handler_pid: target_pid });
        expect(await client.next()).to.deep.equal({ type: 'welcome', user_id: `user:${userId}` });
        handlers.add(target_pid);
      }
    }
    expect(handlers.size).to.equal(10);
  });

  it('may name WebSocket in any case, and bear the token in the header, in a subprotocol, which is never selected, or in the query, in this order', async () => {
    const { stream, listener, token } = shared();
    const good = await token();
    const [bearer, query] = [`bearer.${good}`, `?token=${good}`];
    const values = [`Bearer ${good}`, `bearer ${good}`, `BEARER   ${good}`, `Bearer ${good}  `];
    const badValues = ['', 'Bearer', 'Bearer ', good, `Basic ${good}`, `Bearer ${good} x`, `Bearer${good}`, 'Bearer x'];
    const offers = [bearer, `${bearer}, other`, `  ${bearer} ,bearer.x`, `xbearer.x, ${bearer}`];
    const badOffers = ['bearer.x', `bearer.x, ${bearer}`, `Bearer.${good}`];
    const queries = [query, `${query}&token=x`, `?x=y&token=${good}`, query.replace('.', '%2E')];
    const badQueries = ['?token=%', '?token', `?token=x&token=${good}`, `?Token=${good}`, `?x/token=${good}`];
    for (const [status, requests] of [
      [101, values.map((header) => bearing('?token=x', header, 'bearer.x'))],
      [401, badValues.map((header) => bearing(query, header, bearer))],
      [101, offers.map((offer) => bearing('?token=x', undefined, offer))],
      [401, badOffers.map((offer) => bearing('', undefined, offer))],
      [101, queries.map((each) => bearing(each, undefined, 'ticker.v1'))],
      [401, badQueries.map((each) => bearing(each))],
      [101, [lacking('Upgrade', 'upgrade: WebSocket')(bearing(query))]],
    ] as const) {
      for (const lines of requests) {
        const response = await (await connectRaw(listener.port, ...lines)).until(/\r\n\r\n/);
        expect(parseResponse(response).status, lines.join('\n')).to.equal(status);
        if (!lines.includes('Sec-WebSocket-Protocol: ticker.v1')) expect(response).to.not.match(/websocket-protocol/i);
      }
    }
    const { socket } = await connect(stream, { protocols: [bearer, 'other', 'ticker.v1'] });
    expect(socket.protocol).to.equal('ticker.v1');
  });

  it('or a request that is no valid one is answered as plain HTTP, ends the connection, and leaves no handler', async () => {
    const bundle = await startTickerBundle();
    const good = handshake('/ws/ticker', await bundle.token());
    for (const [status, error, headers, changes] of refusals)
      for (const change of changes) {
        const lines = change(good);
        const raw = await connectRaw(bundle.listener.port, ...lines);
        const response = parseResponse(await raw.ended);
        expect(response.status, lines.join('\n')).to.equal(status);
        if (status === 200) expect(response.body).to.match(/^<!doctype html>/i);
        else expect(response.body).to.equal(`{"error":"${error}"}\n`);
        expect(response.headers)
          .to.match(headers)
          .and.match(status === 426 ? /\r\nConnection: Upgrade, close/ : /\r\nConnection: close/i)
          .and.not.match(/x-ws-relay/i);
        if (status > 400) expect(response.headers).to.match(/\r\nAccess-Control-Allow-Origin: \*/i);
      }
    await bundle.empties();
  });

  it('is answered with 401 if its token is revoked right after the check', async () => {
    const bundle = await startChecking(async (verify, tokens) => {
      const identity = (await verify()) as Identity;
      await tokens.revoke(identity);
      return identity;
    });
    const refusal = await connect(bundle.stream, { token: await bundle.token() }).catch((error) => error);
    expect(refusal).to.include({ status: 401 });
    await bundle.empties();
  });

  it('is answered with 500 if a policy forbids the handler or the handler cannot be created, and with 503, like other requests with a token, if the token store is closed', async () => {
    let isBroken = false;
    const bundle = await startTickerBundle({
      replace: ({ createHandler }) => ({
        createHandler(actorId) {
          if (isBroken) throw new Error('no more handlers');
          return createHandler(actorId);
        },
      }),
    });
    const policy = { name: 'p', group: 'user', actions: ['create'], resources: ['handler'] };
    const user = { user_id: 'demo', role: 'user', apiKey: 'key' };
    const issue = (...effects: ('allow' | 'deny')[]) => {
      const scope = effects.map((effect) => ({ ...policy, effect }));
      return bundle.tokens.issue(user, scope, '');
    };
    const refusal = (token: string) => connect(bundle.stream, { token }).catch((error: unknown) => error);
    const failed = { status: 500, body: { error: 'failed to create handler' } };
    for (const token of [await issue(), await issue('deny'), await issue('allow', 'deny')])
      expect(await refusal(token)).to.deep.include(failed);
    const token = await issue('allow');
    expect((await connect(bundle.stream, { token })).response.statusCode).to.equal(101);
    isBroken = true;
    expect(await refusal(token)).to.deep.include(failed);
    expect(bundle.lines.at(-1)).to.include({ msg: 'failed to create handler', path: '/ws/ticker' });
    await bundle.tokens.store.close();
    const unavailable = { status: 503, body: { error: 'token store unavailable' } };
    expect(await refusal(token)).to.deep.include(unavailable);
    const headers = { Authorization: `Bearer ${token}` };
    for (const [method, path] of Object.entries({ GET: '/prices/history', DELETE: '/auth/token' }))
      expect(await request(`${bundle.url}${path}`, { method, headers }), path).to.deep.include(unavailable);
  });

  it('counts as a plain connection until it joins', async () => {
    const bundle = await startTickerBundle({ maxConnections: 5 });
    for (let client = 0; client < 3; client++) await bundle.joinRaw();
    // The refused client does not close its side, so its connection still counts.
    await refuseHalfOpen(bundle);
    const next = await connectRaw(bundle.listener.port, ...handshake('/ws/ticker', await bundle.token()));
    expect(await next.ended).to.equal('');
  });

  it('that was refused is cut off when the client keeps the connection open', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const bundle = await startTickerBundle({ limits: { timeouts: { handshakeMs: 0 } } });
    await refuseHalfOpen(bundle);
    const destroy = mock.method(bundle.firstSocket(), 'destroy');
    mock.timers.tick(1000);
    await bundle.empties();
    mock.timers.tick(1000);
    expect(destroy.mock.callCount(), 'is forgotten').to.equal(1);
  });

  type Gated = Awaited<ReturnType<typeof startGated>>;
  for (const [what, meanwhile] of Object.entries<(gated: Gated) => unknown>({
    'the relay is closed': ({ bundle }) => bundle.relay.close(Promise.resolve()),
    'its client has half-closed': async ({ raw, bundle }) => {
      const server = bundle.firstSocket();
      raw.socket.end();
      await until(() => server.readableEnded || !server.readable);
    },
    'its client is gone': async ({ raw, bundle }) => {
      raw.socket.resetAndDestroy();
      await until(() => bundle.sockets.size === 0);
    },
  })) {
    it(`is not completed if ${what} meanwhile, and leaves no handler and no socket`, async () => {
      const gated = await startGated();
      const { bundle, raw, open } = gated;
      await meanwhile(gated);
      open();
      expect(await raw.ended).to.equal('');
      // The handshake would go on within these turns.
      for (let turn = 0; turn < 10; turn++) await setImmediate();
      await bundle.empties();
      expect(bundle.lines).to.deep.equal([]);
    });
  }

  it('is one of 32 at most that begin in a turn of the event loop, and does not if its client is gone by then', async () => {
    const turn = countTurns();
    const begun: number[] = [];
    const bundle = await startChecking((verify) => {
      begun.push(turn());
      return verify();
    });
    await shakeHandsAtOnce(250, bundle);
    for (const socket of [...bundle.sockets].slice(200)) socket.destroy();
    await until(() => bundle.relay.size === 200);
    // The others would begin within these turns.
    for (let next = 0; next < 10; next++) await setImmediate();
    expect(begun).to.have.lengthOf(200);
    for (const { length } of Map.groupBy(begun, (number) => number).values())
      expect(length).to.be.at.most(HANDSHAKES_PER_TURN);
  });

  it('that asks for another response, and whose client is gone by then, releases the memory of the response', async () => {
    // A response of 1 MB. All responses together may take 8 MiB.
    const prices = { ['x'.repeat(1_000_000)]: [1] };
    const history = { size: 1, last: () => ({ interval_ms: 1000, timestamps: [1], prices }) };
    const { bundle, raw, open, waiting } = await startGated({ history });
    const lines = handshake('/prices/history', await bundle.token());
    const clients = await Promise.all(Array.from({ length: 10 }, () => connectRaw(bundle.listener.port, ...lines)));
    await until(() => waiting() === 11);
    for (const { socket } of [raw, ...clients]) socket.resetAndDestroy();
    await until(() => bundle.sockets.size === 0);
    open();
    const headers = { authorization: `Bearer ${await bundle.token()}` };
    expect(await request(`${bundle.url}/prices/history`, { headers })).to.have.property('status', 200);
  });
});

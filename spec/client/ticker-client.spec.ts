import { mock } from 'node:test';
import { expect } from 'chai';
import { type Status, type Tick, TickerClient, type TickerOptions } from '../../www/client.ts';
import { afterTest, onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { post, startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { eventually, until } from '../support/until.ts';
import { faultyNetwork } from './faulty-network.ts';

function clientOf(url: string, options: TickerOptions) {
  const client = new TickerClient(url, options);
  const states: Status[] = [];
  client.on('status', (status) => states.push(status));
  afterTest(() => client.close());
  return { client, states, names: () => states.map(({ state }) => state).join(' ') };
}

async function next<Value>(iterator: AsyncIterator<Value>): Promise<Value> {
  return (await iterator.next()).value;
}

async function refusal(client: TickerClient, options?: Parameters<TickerClient['prices']>[0]) {
  try {
    for await (const _ of client.prices(options));
  } catch (error) {
    return error as Error;
  }
  throw new Error('the prices ended');
}

describe('the client of the ticker', () => {
  const running = onceForSuite(startServices);

  it('yields the newest prices of the chosen symbols, from one connection, while somebody reads', async () => {
    const { apiKey, ticker } = running();
    const { client, names } = clientOf(ticker, { apiKey });
    let newest = 0;
    client.on('frame', (text) => {
      const { type, data } = JSON.parse(text);
      if (type === 'ticker') newest = data[0].timestamp;
    });
    const slow = client.prices({ symbols: ['ETH-USD', 'BTC-USD'] });
    const [first] = await next(slow);
    expect(first?.symbol).to.be.oneOf(['ETH-USD', 'BTC-USD']);
    const later = (first?.timestamp ?? 0) + 2;
    await until(() => newest >= later);
    const [second] = await next(slow);
    expect(second?.timestamp).to.be.at.least(later);
    const all = client.prices();
    expect(await next(all)).to.have.length(3);
    await all.return();
    expect((await client.history({ seconds: 2 })).prices).to.have.keys(['BTC-USD', 'ETH-USD', 'SOL-USD']);
    const { message } = await refusal(client, { symbols: ['DOGE'] });
    expect(message).to.match(/^unknown symbol DOGE: the service has [A-Z, -]+$/);
    await slow.return();
    await until(() => client.status.state === 'stopped');
    expect(names()).to.match(/^connecting live( stopped connecting live)* stopped$/);
  });

  it('ends a wait for prices by the signal, and all by close', async () => {
    const { client } = clientOf('http://127.0.0.1:1', { apiKey: 'key' });
    const abort = new AbortController();
    const waiting = refusal(client, { signal: abort.signal });
    const other = client.prices().next();
    abort.abort(new Error('enough'));
    expect(await waiting).to.include({ message: 'enough' });
    client.close();
    expect((await other).done).to.equal(true);
    expect(client.status).to.deep.equal({ state: 'stopped', reason: 'closed' });
  });

  it('reconnects when a connection is cut, and says which error has refused others', async () => {
    const network = await faultyNetwork(running().ticker);
    const { client, states, names } = clientOf(network.url, { fetch: network.fetch, apiKey: running().apiKey });
    network.fail('/auth/token', { status: 429, headers: { 'Retry-After': '1' } }, { status: 500 });
    // Without a delay but that of Retry-After.
    mock.method(Math, 'random', () => 0);
    const delays: number[] = [];
    client.on('status', (status) => status.state === 'offline' && delays.push(status.retryAt - Date.now()));
    const prices = client.prices();
    await next(prices);
    expect(delays[0]).to.be.above(500);
    network.cut();
    while (names() !== 'connecting offline connecting offline connecting live offline connecting live')
      await next(prices);
    const reasons = states.flatMap((status) => (status.state === 'offline' ? [status.reason] : []));
    expect(reasons.slice(0, 2)).to.deep.equal(['made up', 'made up']);
    // The token is still valid, so it was not exchanged again.
    expect(network.requests.filter((each) => each === 'POST /auth/token')).to.have.length(3);
  });

  it('connects again after a frame that is no message of the service', async () => {
    const welcome = '{"type":"welcome","interval_ms":1000,"symbols":["A"]}';
    for (const frame of ['garbage', 'null', new Blob(['{}']), '{"type":"welcome"}', '{"type":"ticker","seq":1}']) {
      class Socket {
        readonly readyState = 1;
        send() {}
        close() {}
        addEventListener(type: string, listener: (event: object) => void) {
          if (type === 'message') for (const data of [welcome, frame]) setImmediate(listener, { data });
        }
      }
      const { client, states, names } = clientOf('http://localhost', { token: 'a', WebSocket: Socket });
      void client.prices().next();
      await until(() => names().startsWith('connecting offline'));
      expect(states[1]).to.include({ reason: 'invalid message' });
    }
  });

  it('notices that nothing arrives any more, and connects again once the network is back', async () => {
    const proxy = await severable(running().ticker);
    const { client, names } = clientOf(proxy.url, { apiKey: running().apiKey });
    const prices = client.prices();
    await next(prices);
    proxy.stall();
    await eventually(names, (text) => text.includes('live stale offline'));
    proxy.mend();
    client.wake();
    await next(prices);
    expect(client.status.state).to.equal('live');
  });

  it('exchanges the key again when a token has expired, was revoked, or the clock has jumped', async () => {
    const services = await startServices({ env: { TOKEN_LIFETIME_SECONDS: '2', TOKEN_EXPIRY_CLOSES: 'true' } });
    const network = await faultyNetwork(services.ticker);
    const { client } = clientOf(network.url, { fetch: network.fetch, apiKey: services.apiKey });
    const ends: string[] = [];
    client.on('end', ({ message }) => ends.push(message));
    const prices = client.prices();
    while (ends.length < 1) await next(prices);
    // On a slow machine, another token may expire before it is revoked.
    for (; !ends.includes('token revoked'); await next(prices)) await client.revoke();
    expect(new Set(ends)).to.deep.equal(new Set(['token expired', 'token revoked']));
    const exchanges = () => network.requests.filter((each) => each === 'POST /auth/token').length;
    const jumped = exchanges();
    mock.timers.enable({ apis: ['Date'], now: Date.now() + 3_600_000 });
    network.cut();
    while (exchanges() === jumped) await next(prices);
  });

  it('stops with the reason if another attempt would fail as well', async () => {
    const { ticker, token } = running();
    for (const [options, text] of [
      [{}, 'authentication required'],
      [{ apiKey: 'none' }, 'invalid API key'],
      [{ apiKey: '' }, 'api_key required'],
      [{ token: 'v3.local.none' }, 'authentication required'],
    ] as const) {
      const { client } = clientOf(ticker, options);
      expect(await refusal(client)).to.include({ name: 'ServiceError', message: text });
      expect(client.status).to.deep.equal({ state: 'stopped', reason: text });
    }
    const { url, apiKey } = await startTickerBundle({ policies: await temporaryFolder() });
    expect(await refusal(clientOf(url, { apiKey }).client)).to.include({ message: 'action not allowed' });
    const { client } = clientOf(ticker, { token: await token() });
    const revoked = refusal(client);
    await until(() => client.status.state === 'live');
    await client.revoke();
    expect(await revoked).to.include({ name: 'ClosedError', code: 4001, message: 'token revoked' });
  });

  it('stops if its token cannot be sent, and leaves no timer', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const { client } = clientOf(running().ticker, { token: 'x\n' });
    expect(await refusal(client)).to.include({ name: 'SyntaxError' });
    mock.timers.tick(60_000);
  });

  it('takes a token from a function, again after the function has failed or the token was refused', async () => {
    const { ticker, apiKey } = running();
    const tokens = [undefined, 'v3.local.old', (await post(`${ticker}/auth/token`, { api_key: apiKey })).body.token];
    const token = () => tokens.shift() ?? Promise.reject(new Error('no network'));
    const { client } = clientOf(ticker, { token });
    expect(await next(client.prices())).to.have.length(3);
    expect(tokens).to.deep.equal([]);
  });

  it('says in one line what to do without a WebSocket', () => {
    const { WebSocket } = globalThis;
    afterTest(() => Object.assign(globalThis, { WebSocket }));
    Object.assign(globalThis, { WebSocket: undefined });
    const create = () => new TickerClient('http://127.0.0.1:1');
    expect(create).to.throw(TypeError, /^this runtime has no WebSocket: pass .*ws/);
  });
});

const numbersFrom = (first: number, count: number) => Array.from({ length: count }, (_, index) => first + index);

describe('the ticks of the client', () => {
  const running = onceForSuite(() => startServices({ env: { TICK_INTERVAL_MS: '20' } }));

  function witness() {
    const { client } = clientOf(running().ticker, { apiKey: running().apiKey });
    const ticks = new Map<number, Tick>();
    client.on('tick', (tick) => ticks.set(tick.seq, tick));
    return ticks;
  }

  it('have no hole after a cut of more than sixty ticks, each with the prices of its time', async () => {
    const truth = witness();
    await until(() => truth.size > 0);
    const network = await severable(running().ticker);
    const { client } = clientOf(network.url, { apiKey: running().apiKey });
    const heard: number[] = [];
    client.on('tick', ({ seq }) => heard.push(seq));
    const ticks = client.ticks({ symbols: ['ETH-USD'] });
    const first = await next(ticks);
    network.cut();
    const { size } = truth;
    await until(() => truth.size > size + 60);
    network.mend();
    client.wake();
    const end = [...truth.keys()].at(-1) ?? 0;
    const read = [first];
    while ((read.at(-1)?.seq ?? 0) < end) read.push(await next(ticks));
    expect(read.map(({ seq }) => seq)).to.deep.equal(numbersFrom(first.seq, read.length));
    await until(() => truth.has(first.seq + read.length - 1));
    for (const { seq, prices, missed } of read) {
      expect(missed).to.equal(0);
      expect(prices).to.deep.equal(truth.get(seq)?.prices.filter(({ symbol }) => symbol === 'ETH-USD'));
    }
    expect(heard.slice(0, read.length)).to.deep.equal(numbersFrom(heard[0] ?? 0, read.length));
  });

  it('tell a slow reader how many it has missed before the newest one', async () => {
    const truth = witness();
    const { client } = clientOf(running().ticker, { apiKey: running().apiKey });
    const ticks = client.ticks();
    const [first, second] = [await next(ticks), await next(ticks)];
    expect(second.seq).to.equal(first.seq + 1);
    await until(() => truth.has(second.seq + 30));
    const third = await next(ticks);
    expect(third.missed).to.equal(third.seq - second.seq - 1);
    expect(third.missed).to.be.above(20);
    expect(await next(ticks)).to.include({ missed: 0 });
  });

  it('are skipped by a reader of prices but for the newest, even if several come within one interval', async () => {
    const { client } = clientOf(running().ticker, { apiKey: running().apiKey });
    const ticks: Tick[] = [];
    client.on('tick', (tick) => ticks.push(tick));
    const prices = client.prices();
    await next(prices);
    // No time passes, so the reader does not count as slow.
    mock.method(performance, 'now', () => 0);
    const { length } = ticks;
    await until(() => ticks.length > length + 2);
    expect(await next(prices)).to.deep.equal(ticks.at(-1)?.prices);
  });

  it('continue with a new token in a new epoch after the service was killed and restarted', async () => {
    const before = await startServices({ env: { TICK_INTERVAL_MS: '20' } });
    const { client, names } = clientOf(before.ticker, { apiKey: before.apiKey });
    const read: Tick[] = [];
    client.on('tick', (tick) => read.push(tick));
    await until(() => read.length > 1);
    await before.end('SIGKILL');
    await until(() => client.status.state === 'offline');
    const { length } = read;
    await startServices({ env: { ...before.env, TICKER_PORT: new URL(before.ticker).port } });
    client.wake();
    await until(() => read.length > length + 1);
    const [last, first, second] = read.slice(length - 1) as [Tick, Tick, Tick];
    expect(first.epoch).to.be.above(last.epoch);
    expect(first).to.include({ seq: 0, missed: Number.POSITIVE_INFINITY });
    expect(second).to.include({ epoch: first.epoch, missed: second.seq - first.seq - 1 });
    expect(names()).to.match(/^connecting live offline connecting( offline connecting)* live$/);
  });
});

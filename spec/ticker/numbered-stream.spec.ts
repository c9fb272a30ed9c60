import { mock } from 'node:test';
import { expect } from 'chai';
import type { Price } from '../../www/client/tick-stream.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { until } from '../support/until.ts';
import { connect, type StreamClient, type StreamMessage } from '../support/websocket.ts';

const SYMBOLS = ['BTC-USD', 'ETH-USD', 'SOL-USD'];

/** Starts the stream at tick 0 of epoch 1, without ticks of its own. */
async function start(continues = true, streamMs = 500) {
  const bundle = await startTickerBundle({ limits: { maxMessagesPerSecond: 1e6 }, continues, streamMs });
  const { numbered } = bundle;
  /** Sends the next ticks. Prices tell their number. */
  const tick = (count = 1, epoch = numbered.newest.epoch) => {
    for (let n = 0; n < count; n++) {
      const number = numbered.newest.number + 1;
      numbered.add({ epoch, number, prices: [number, number + 0.5, number + 0.25], timestamp: number });
    }
  };
  return { ...bundle, tick, join: () => join(bundle) };
}

/** Connects a client of `ticker.v2`, past the welcome and the snapshot. */
async function join({ stream, token }: TickerBundle) {
  const client = await connect(stream, { protocols: ['ticker.v1', 'ticker.v2', `bearer.${await token()}`] });
  const welcome = await client.nextOf('welcome');
  const snapshot = await client.next();
  return { ...client, welcome, snapshot, send: (message: unknown) => client.socket.send(JSON.stringify(message)) };
}

/** Starts the stream, and connects a client after that many ticks. */
async function startJoined(ticks = 0) {
  const stream = await start();
  stream.tick(ticks);
  return { ...stream, client: await stream.join() };
}

async function read(client: StreamClient, count: number): Promise<StreamMessage[]> {
  const messages: StreamMessage[] = [];
  while (messages.length < count) messages.push(await client.next());
  return messages;
}

describe('a client of ticker.v2', () => {
  it('is told epoch, interval and symbols, and gets numbered ticks', async () => {
    const { client, tick } = await startJoined(2);
    const { socket, welcome, snapshot } = client;
    expect(socket.protocol).to.equal('ticker.v2');
    expect(welcome).to.deep.equal({
      ...{ type: 'welcome', user_id: 'user:demo', epoch: 1, interval_ms: 500 },
      symbols: SYMBOLS,
    });
    expect(snapshot).to.include({ epoch: 1, seq: 2 });
    tick();
    const prices = [3, 3.5, 3.25].map((price, index) => ({ symbol: SYMBOLS[index], price, timestamp: 3 }));
    expect(await client.next()).to.deep.equal({ type: 'ticker', epoch: 1, seq: 3, data: prices });
    socket.send(' {"type": "ping", "more": 1}');
    expect(await client.next()).to.deep.equal({ type: 'pong' });
  });

  it('replaces its choice of symbols, gets the newest tick in the new one at once, and leaves nothing behind', async () => {
    const { client, join, tick, empties, numbered } = await startJoined();
    const other = await join();
    for (const symbols of [['SOL-USD', 'BTC-USD', 'SOL-USD'], [], ['ETH-USD'], undefined]) {
      const chosen = SYMBOLS.filter((symbol) => symbols?.includes(symbol) ?? true);
      client.send({ type: 'subscribe', symbols });
      const names = ({ data }: StreamMessage) => data.map(({ symbol }: Price) => symbol);
      const newest = await client.next();
      tick();
      const next = await client.next();
      expect([newest, next].map(names)).to.deep.equal([chosen, chosen]);
      expect([next.seq - newest.seq, next.skipped]).to.deep.equal([1, undefined]);
      expect(names(await other.next())).to.deep.equal(SYMBOLS);
    }
    expect(numbered.size).to.equal(2);
    for (const { socket } of [client, other]) socket.close();
    await empties();
    const { mock: encoding } = mock.method(JSON, 'stringify');
    tick();
    expect(encoding.callCount(), 'for nobody').to.equal(0);
  });

  it('gets an error for each message that is not understood, and stays', async () => {
    const { client, tick } = await startJoined();
    const wrongSymbols = ['"BTC-USD"', 'null', '[1]', '{}', '[["BTC-USD"]]'];
    const wrongPositions = ['null', '1', '1,"seq":"0"', '0.5,"seq":0', '1,"seq":-1', '1,"seq":1e300'];
    const wrongTypes = ['null', '[]', '1', '{}', '{"type":"Ping"}', '{"type":["ping"]}', '{"type":"welcome"}'];
    const errors: Record<string, (string | Buffer)[]> = {
      'invalid JSON': ['', '{"type":"ping"', Buffer.from('{"type":"ping"}')],
      'type must be ping, subscribe or resume': wrongTypes,
      'symbols must be an array of strings': wrongSymbols.map((each) => `{"type":"subscribe","symbols":${each}}`),
      'epoch and seq must be whole numbers from 0': wrongPositions.map((each) => `{"type":"resume","epoch":${each}}`),
    };
    for (const [error, texts] of Object.entries(errors))
      for (const text of texts) {
        client.socket.send(text);
        expect(await client.next(), String(text)).to.deep.equal({ type: 'error', error });
      }
    for (const symbol of ['DOGE', '', 'btc-usd', '__proto__']) {
      client.send({ type: 'subscribe', symbols: ['BTC-USD', symbol] });
      expect(await client.next()).to.deep.equal({ type: 'error', error: 'unknown symbol', symbol });
    }
    tick();
    expect((await client.next()).data).to.have.length(3);
  });
});

/** Returns the ticks of a text like `1/1-3 5/4`, each as `epoch/number`. */
const listed = (text: string): string[] =>
  (text.match(/\S+/g) ?? []).flatMap((each) => {
    const [, epoch, first, last = first] = /^(\d+)\/(\d+)(?:-(\d+))?$/.exec(each) ?? [];
    if (epoch === undefined) return each;
    return Array.from({ length: Number(last) - Number(first) + 1 }, (_, n) => `${epoch}/${Number(first) + n}`);
  });

describe('a client of ticker.v2 that resumes', () => {
  it('gets each tick since, in its choice, while new ones evict old ones, and one gap for those evicted before it has read them', async () => {
    const { client, tick, firstSocket, numbered } = await startJoined(1400);
    client.send({ type: 'subscribe', symbols: ['ETH-USD'] });
    await client.next();
    const server = firstSocket();
    for (const [since, more, expectedGaps] of [
      [1003, 100, []],
      [700, 900, [1501]],
    ] as const) {
      server.cork();
      client.send({ type: 'resume', epoch: 1, seq: since });
      await until(() => server.writableNeedDrain);
      tick(more);
      server.uncork();
      const gaps: number[] = [];
      for (let last: number = since; last < numbered.newest.number; ) {
        const { type, seq, from = seq, to = seq, data, skipped } = await client.next();
        expect([from, skipped]).to.deep.equal([last + 1, undefined]);
        if (type === 'gap') gaps.push(to);
        else expect(data).to.deep.equal([{ symbol: 'ETH-USD', price: seq + 0.5, timestamp: seq }]);
        last = to;
      }
      expect(gaps).to.deep.equal(expectedGaps);
      tick();
      expect(await client.next()).to.include({ seq: numbered.newest.number });
    }
  });

  for (const [rule, made, from, expected, continues, streamMs] of [
    ['gets nothing if it has all', '1/1-3', [1, 3], ''],
    ['gets a gap for what is older than the last 900 ticks', '1/1-1000', [1, 42], 'gap:43-100 1/101-1000'],
    ['gets a gap for what is older than 900 seconds', '1/1-30', [1, 0], 'gap:1-12 1/13-30', true, 50_000],
    ['gets a gap for what the node has missed', '1/3-4', [1, 0], 'gap:1-2 1/3-4'],
    ['gets a repeated tick once', '1/1-3 1/3', [1, 1], '1/2-3'],
    ['gets the ticks of later leaders', '1/1-2 5/3-4', [1, 1], '1/2 5/3-4'],
    ['gets all after a gap of unknown size if its epoch is unknown', '1/1-2 5/3-4', [6, 3], 'gap:? 1/0-2 5/3-4'],
    ['also gets all if its tick is still to come on a single node', '1/1-3', [1, 4], 'gap:? 1/0-3', false],
  ] as [string, string, [number, number], string, boolean?, number?][]) {
    it(rule, async () => {
      const { join, numbered, tick } = await start(continues, streamMs);
      for (const [epoch = 0, number = 0] of listed(made).map((each) => each.split('/').map(Number)))
        numbered.add({ epoch, number, prices: [1, 2, 3], timestamp: 0 });
      const client = await join();
      client.send({ type: 'resume', epoch: from[0], seq: from[1] });
      const received = await read(client, listed(expected).length);
      const gapOf = ({ from, to }: StreamMessage) => (from === null && to === null ? 'gap:?' : `gap:${from}-${to}`);
      const textOf = (message: StreamMessage) => (message.epoch ? `${message.epoch}/${message.seq}` : gapOf(message));
      expect(received.map(textOf)).to.deep.equal(listed(expected));
      // The server answers in order, so no other answer to the resume follows the pong.
      client.send({ type: 'ping' });
      expect((await client.next()).type).to.equal('pong');
      tick();
      expect(await client.next())
        .to.include({ type: 'ticker', seq: numbered.newest.number })
        .and.not.have.property('skipped');
    });
  }

  it('starts anew with numbers that start anew, as after a restored database', async () => {
    const { client, numbered } = await startJoined();
    for (const [epoch, number, skipped] of [
      [7, 100, 99],
      [2, 50, undefined],
      [2, 51, undefined],
    ] as const) {
      numbered.add({ epoch, number, prices: [1, 2, 3], timestamp: 0 });
      const { seq, skipped: told } = await client.next();
      expect([seq, told]).to.deep.equal([number, skipped]);
    }
    client.send({ type: 'resume', epoch: 7, seq: 100 });
    expect((await read(client, 3)).map(({ type, seq }) => seq ?? type)).to.deep.equal(['gap', 50, 51]);
  });

  it('and chooses other symbols meanwhile, gets the newest tick in the new choice, also if there is nothing to resume', async () => {
    const { client, tick } = await startJoined(3);
    const chosen = ({ seq, data }: StreamMessage) => [seq, ...data.map(({ symbol }: Price) => symbol)].join(' ');
    client.send({ type: 'resume', epoch: 1, seq: 3 });
    client.send({ type: 'subscribe', symbols: ['ETH-USD'] });
    expect(chosen(await client.next())).to.equal('3 ETH-USD');
    client.send({ type: 'resume', epoch: 1, seq: 1 });
    client.send({ type: 'subscribe', symbols: ['BTC-USD'] });
    expect((await read(client, 2)).map(chosen)).to.deep.equal(['2 BTC-USD', '3 BTC-USD']);
    tick();
    expect(chosen(await client.next())).to.equal('4 BTC-USD');
  });

  it('is told exactly how many ticks are left out, whether it reads slowly, or the node misses or only keeps some', async () => {
    const { client, tick, firstSocket, numbered, relay } = await startJoined();
    const server = firstSocket();
    const miss = (count: number) => numbered.add({ ...numbered.newest, number: numbered.newest.number + count + 1 });
    const keep = () => numbered.keep({ ...numbered.newest, number: numbered.newest.number + 1 });
    tick();
    miss(2);
    keep();
    tick();
    server.cork();
    while (!server.writableNeedDrain) tick();
    tick();
    miss(3);
    keep();
    tick();
    expect(relay.metrics.framesSkipped, 'replaced by newer ones').to.equal(2);
    server.uncork();
    const { number } = numbered.newest;
    const messages = [client.snapshot];
    while (messages.at(-1)?.seq !== number) {
      messages.push(await client.next());
      const [before, { seq, skipped = 0 }] = messages.slice(-2) as [StreamMessage, StreamMessage];
      expect(skipped).to.equal(seq - before.seq - 1);
    }
    expect(messages.flatMap(({ skipped = [] }) => skipped)).to.deep.equal([2, 1, 6]);
  });

  it('again and again delays no tick of others, and a slow one makes nothing wait for it', async () => {
    const { client: greedy, join, tick, firstSocket } = await startJoined(900);
    const server = firstSocket();
    const other = await join();
    greedy.socket.pause();
    let most = 0;
    for (let n = 0; n < 100; n++) {
      greedy.send({ type: 'resume', epoch: 1, seq: 0 });
      tick();
      expect((await other.next()).skipped).to.equal(undefined);
      most = Math.max(most, server.writableLength);
    }
    expect(most).to.be.below(64 * 1024);
    greedy.socket.resume();
    while ((await greedy.next()).seq !== 1000);
  });
});

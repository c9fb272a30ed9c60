import { EventEmitter } from 'node:events';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { expect } from 'chai';
import { CHANNEL } from '../../db/postgres/database.ts';
import { holdLease } from '../../db/postgres/nodes.ts';
import type { Bus } from '../../main/nodes/bus.ts';
import { NodeTickFeed } from '../../main/nodes/tick-feed.ts';
import type { TickId } from '../../main/ticker/numbered-stream.ts';
import type { LifecycleMessage } from '../../main/ticker/pid-registry.ts';
import type { TickerOptions } from '../../main/ticker/ticker.ts';
import { systemClock } from '../../workers/shared/clock.ts';
import { afterTest, temporaryFile } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { describeWithPostgres, migratedSchema, openDatabase, type Schema } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { mortal, pricesOf, startTicker } from '../support/ticker.ts';
import { until } from '../support/until.ts';
import { expectSmoothPrices, openBus, pricesIn } from './parts.ts';

const INTERVAL_MS = 100;
const SETTINGS = { intervalMs: INTERVAL_MS, clock: systemClock };

const textOf = (message: LifecycleMessage) => (message.topic === 'ws.send' ? message.data : '');

type Node = Awaited<ReturnType<typeof startNode>>;

async function startNode({ url }: Pick<Schema, 'url'>, options: Partial<TickerOptions> = {}) {
  const { bus, log } = await openBus(url);
  const feed = await new NodeTickFeed({ ...SETTINGS, bus, log }).open();
  afterTest(() => feed.close());
  const node = await startTicker({ intervalMs: INTERVAL_MS, feed, ...options });
  const { recorder } = node.subscribe();
  const snapshot = await recorder.next();
  return {
    ...node,
    ...{ feed, snapshot },
    async stop() {
      await node.ticker.stop();
      await feed.close();
    },
    texts: () => node.ticks.map(({ message }) => textOf(message)),
  };
}

async function startNodes(schema: Pick<Schema, 'url'>, count: number): Promise<Node[]> {
  const nodes: Node[] = [];
  for (let n = 0; n < count; n++) {
    nodes.push(await startNode(schema));
    // A node leads before the next one starts.
    await until(() => leaders(nodes).length === 1 && nodes.every(({ ticks }) => ticks.length > 0));
  }
  return nodes;
}

const leaders = (nodes: readonly Node[]) => nodes.filter(({ feed }) => feed.isLeader);

async function receive(nodes: readonly Node[], count: number): Promise<void> {
  const before = new Map(nodes.map((node) => [node, node.ticks.length]));
  await until(() => nodes.every((node) => node.ticks.length >= (before.get(node) ?? 0) + count));
}

/** Waits until `next` makes the ticks instead of `old`. Fails if both lead at once. */
async function takeOver(next: Node, old: Node): Promise<void> {
  const { length } = next.ticks;
  await until(() => {
    expect(leaders([next, old]), 'leaders').to.have.length.at.most(1);
    return next.feed.isLeader && next.ticks.length > length + 2;
  });
}

const publish = ({ sql }: Schema, tick: object) =>
  sql(`SELECT pg_notify(${CHANNEL}, $1)`, [JSON.stringify({ from: 'spec', topic: 'tick', ...tick })]);

describe('the tick feed', () => {
  it('updates its lease one request at a time, uses it for 1.5 s from the request, and not after a refused renewal or during a release', async () => {
    const clock = new ManualClock();
    const tick = { symbols: 'A', prices: [1], timestamp: 1 };
    const requests: unknown[] = [];
    let rows: object[] = [{ epoch: 5, state: JSON.stringify({ epoch: 4, number: 7, ...tick }) }];
    const query = async (_text: string, [, durationMs, state]: unknown[] = [], limitMs = 0) => {
      if (limitMs === 0) return rows;
      requests.push([durationMs, limitMs, state && JSON.parse(state as string).number, feed.isLeader]);
      await new Promise(setImmediate);
      clock.jump(400);
      requests.push('answered');
      return rows;
    };
    const bus = Object.assign(new EventEmitter(), { id: 'one', receiving: { isUp: true, query }, send() {} });
    const feed = new NodeTickFeed({ ...SETTINGS, clock, bus: bus as unknown as Bus, log: captureLog().log });
    await feed.open();
    const told: string[] = [];
    const tell = (what: string) => (id: TickId) => told.push(`${what} ${id.epoch}/${id.number}`);
    feed.follow({ onPrices: tell('stored'), onTick: tell('tick') });
    const send = (epoch: number) => bus.emit('message', { topic: 'tick', epoch, number: 9, ...tick });
    const answered = async () => {
      await until(() => requests.includes('answered'));
      await new Promise(setImmediate);
      return [...requests.splice(0), feed.isLeader];
    };
    send(4);
    for (const isWanted of [true, false, true]) feed.setLeaseWanted(isWanted);
    await until(() => requests.length >= 6);
    const renewed = [[1750, 500, 9, true], 'answered'];
    expect(await answered()).to.deep.equal([[1750, 500, null, false], 'answered', ...renewed, ...renewed, true]);
    expect(clock.timers).to.equal(1);
    expect(new Float64Array(feed.lease)[0]).to.be.below(Number(process.hrtime.bigint()) / 1e6 + 1_100);
    clock.jump(1_099);
    expect(feed.publish(tick)).to.include({ epoch: 5, number: 10 });
    clock.jump(1);
    expect(feed.isLeader).to.equal(false);
    expect(await answered(), 'stores the first tick at once').to.deep.equal([[1750, 500, 10, false], 'answered', true]);
    rows = [];
    clock.advance(500);
    expect(await answered()).to.deep.equal([[1750, 500, 10, true], 'answered', false]);
    expect([feed.publish(tick), new Float64Array(feed.lease)[0]]).to.deep.equal([undefined, 0]);
    rows = [{ epoch: 7, state: null }];
    clock.advance(250);
    expect(await answered()).to.deep.equal([[1750, 500, null, false], 'answered', true]);
    for (const epoch of [6, 9, 6]) send(epoch);
    clock.jump(3_500);
    send(6);
    const expected = ['stored 4/7', 'tick 4/9', 'stored 4/9', 'stored 5/10', 'tick 9/9', 'tick 6/9'];
    expect([told, feed.isLeader], 'an earlier epoch only after a pause').to.deep.equal([expected, false]);
    clock.advance(500);
    expect((await answered()).at(-1)).to.equal(true);
    await feed.close();
    feed.setLeaseWanted(true);
    expect([requests, clock.timers]).to.deep.equal([[[0, 500, 9, false], 'answered'], 0]);
  });
});

describeWithPostgres('the tickers of many nodes', () => {
  it('hold one lease, whose state only its owner changes, and whose epoch rises with each owner', async () => {
    const { query } = openDatabase((await migratedSchema()).url);
    for (const [owner, durationMs, state, lease] of [
      ['one', 0, 'none', { epoch: 1, state: null }],
      ['one', 0, 'new', { epoch: 1, state: 'new' }],
      ['other', 60_000, 'old', { epoch: 2, state: 'new' }],
      ['one', 0, 'old', undefined],
    ] as const)
      expect(await holdLease(query, owner, durationMs, state)).to.deep.equal(lease);
  });

  it('send the same ticks, which one of them makes, and greet those who come with the latest prices', async () => {
    const nodes = await startNodes(await migratedSchema(), 3);
    const greetings = nodes.slice(1).map(({ snapshot }) => snapshot);
    for (const { subscribe } of nodes.slice(1)) greetings.push(await subscribe().recorder.next());
    await receive(nodes, 16);
    await until(() => leaders(nodes).length === 1);
    const [own = [], ...others] = nodes.map((node) => node.texts());
    for (const texts of others) {
      const shared = own.slice(own.indexOf(texts[0] ?? ''));
      const length = Math.min(shared.length, texts.length);
      expect(length).to.be.greaterThan(14);
      expect(texts.slice(0, length)).to.deep.equal(shared.slice(0, length));
    }
    for (const greeting of greetings) expect(own, 'a tick of the leader, with its second').to.include(textOf(greeting));
    expectSmoothPrices(own);
    // With the same epoch and number, so that a client may resume on another node.
    const newest = () => nodes.map(({ ticker }) => JSON.stringify(ticker.numbered.newest));
    await until(() => new Set(newest()).size === 1);
    expect(nodes[1]?.ticker.numbered.newest).to.include({ epoch: Math.max(...nodes.map(({ feed }) => feed.epoch)) });
  });

  for (const [what, fault] of [
    ['the connection of the leader is cut', 'cut'],
    ['the leader gets no answer', 'stall'],
    ['the thread of the leader hangs', undefined],
  ] as const)
    it(`go on from the last prices when ${what}`, async () => {
      const schema = await migratedSchema();
      const way = await severable(schema.url);
      const old = await startNode(way, fault ? {} : { file: mortal });
      await until(() => old.feed.isLeader && old.ticks.length > 3);
      const witness = await startNode(schema);
      await until(() => witness.ticks.length > 3);
      if (fault) way[fault]();
      else old.endThread('hang');
      await takeOver(witness, old);
      expect(old.feed.isLeader).to.equal(false);
      // A tick may be stored but not sent when the connection is cut.
      expectSmoothPrices(witness.texts(), 1);
      if (fault) {
        const { length } = old.ticks;
        await receive([witness], 6);
        expect(old.ticks, 'ticks of its own').to.have.lengthOf(length);
        way.mend();
      } else await old.logged(({ msg }) => msg === 'the ticker thread hangs: it is terminated');
      await receive([old, witness], 4);
      expect(witness.texts()).to.include(old.texts().at(-1));
      expect(leaders([old, witness])).to.not.include(old);
    });

  it('ignore ticks of an earlier leader and malformed messages, and stop making ticks when a later leader sends one', async () => {
    const schema = await migratedSchema();
    const nodes = await startNodes(schema, 2);
    const symbols = 'BTC-USD,ETH-USD,SOL-USD';
    const forged = { epoch: 2 ** 40, number: 1_000_000, symbols, prices: [1, 1, 1], timestamp: 7 };
    const many = { symbols: Array(65).fill('A').join(), prices: Array(65).fill(1) };
    const wrongPrices = [{ prices: [Number.NaN, 1, 1] }, { prices: [1, 1] }];
    const changes = [{ epoch: 0 }, { epoch: 'x' }, { timestamp: 0.5 }, { symbols: undefined }, ...wrongPrices, many];
    for (const wrong of [{}, ...changes.map((change) => ({ ...forged, ...change }))]) await publish(schema, wrong);
    await receive(nodes, 6);
    for (const node of nodes) expectSmoothPrices(node.texts());
    const prices = symbols.split(',').map((symbol) => ({ symbol, price: 1, timestamp: 7 }));
    const data = JSON.stringify({ type: 'ticker', data: prices });
    // Whether each leads at that tick: a moment later, the first may have acquired the lease again.
    const lead = ({ ticker, feed }: Node) =>
      new Promise((resolve) => ticker.follow((message) => textOf(message) === data && resolve(feed.isLeader)));
    const leads = nodes.map(lead);
    await publish(schema, forged);
    expect(await Promise.all(leads)).to.deep.equal([false, false]);
    await until(() => nodes.every((node) => node.texts().includes(data)));
  });

  it('ask only the source of the leader, which a new leader starts at once with the last prices when the old one is stopped', async () => {
    // Each thread adds a different amount to the first price.
    const code = `import { appendFileSync } from 'node:fs';
      const step = 1 + Math.random();
      let price;
      export default {
        start(symbols) { price = symbols[0].price; appendFileSync(import.meta.dirname + '/starts', price + '\\n'); },
        prices: () => [price += step, 1, 1],
      };`;
    const source = await temporaryFile('source.mjs', code);
    const schema = await migratedSchema();
    const old = await startNode(schema, { source });
    await until(() => old.ticks.length > 3);
    const next = await startNode(schema, { source });
    await until(() => next.ticks.length > 3);
    const starts = async () => (await readFile(join(dirname(source), 'starts'), 'utf8')).trim().split('\n').map(Number);
    expect(await starts()).to.deep.equal([42_000]);
    await old.stop();
    await takeOver(next, old);
    expect((await starts())[1]).to.equal(pricesIn(old.texts().at(-1) ?? '').get('BTC-USD'));
    expect(await starts()).to.have.length(2);
  });

  it('refuse the ticks of a node with other symbols, say so, and take over the prices of the symbols that they share', async () => {
    const schema = await migratedSchema();
    const [leader] = (await startNodes(schema, 1)) as [Node];
    const symbols = ['SOL-USD', 'XRP-USD'].map((symbol) => ({ symbol, price: 0.5, decimals: 4 }));
    const other = await startNode(schema, { symbols });
    const line = await other.logged(({ msg }) => msg.startsWith('ticks of the leader are refused'));
    expect(line).to.include({ level: 40, symbols: 'BTC-USD,ETH-USD,SOL-USD' });
    expect([other.ticker.refusesTicks, other.ticker.lastDue, other.ticks.length]).to.deep.equal([true, 0, 0]);
    const told = leader.texts().map((data) => pricesIn(data).get('SOL-USD'));
    const snapshot = pricesOf(other.snapshot);
    expect(told).to.include(snapshot.get('SOL-USD'));
    expect([...snapshot.keys(), snapshot.get('XRP-USD')]).to.deep.equal(['SOL-USD', 'XRP-USD', 0.5]);
    await leader.stop();
    await until(() => other.ticks.length > 3);
    expect(other.ticker.refusesTicks).to.equal(false);
    for (const text of other.texts()) expect([...pricesIn(text).keys()]).to.deep.equal(['SOL-USD', 'XRP-USD']);
  });

  it('send ticks of many symbols with long names', async () => {
    const schema = await migratedSchema();
    const symbols = Array.from({ length: 64 }, (_, index) => ({
      symbol: `${String(index).padStart(16, 'X')}-${'Y'.repeat(16)}`,
      price: 123_456_789.12345,
      decimals: 5,
    }));
    const leader = await startNode(schema, { symbols });
    await until(() => leader.ticks.length > 0);
    const other = await startNode(schema, { symbols });
    await until(() => other.ticks.length > 3);
    expect(leader.texts()).to.include(other.texts()[1]);
  });
});

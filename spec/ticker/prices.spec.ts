import { mock } from 'node:test';
import { expect } from 'chai';
import { ByteBudget } from '../../main/http/request-body.ts';
import { keepPrices, type PriceHistory, priceHistory } from '../../main/ticker/prices.ts';
import { onceForSuite } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { request } from '../support/program.ts';
import { startTickerBundle } from '../support/ticker-bundle.ts';
import { eventually, until } from '../support/until.ts';

const SYMBOLS = ['A', 'B'].map((symbol, index) => ({ symbol, price: index + 1, decimals: 2 }));

function historyOf(intervalMs: number, ...ticks: [timestamp: number, ...prices: number[]][]): PriceHistory {
  const history = priceHistory(SYMBOLS, intervalMs);
  for (const [timestamp, ...prices] of ticks) history.add(timestamp, prices);
  return history;
}

describe('the history of prices', () => {
  it('answers the ticks of the last seconds, oldest first, in one array per symbol, the last of each second', () => {
    const history = historyOf(1000, [100, 0, 0], [100, 1, 2], [101, 3, 4], [103, 5, 6]);
    expect(history.last(900, 103)).to.deep.equal({
      interval_ms: 1000,
      timestamps: [100, 101, 103],
      prices: { A: [1, 3, 5], B: [2, 4, 6] },
    });
    expect(history.last(3, 103).timestamps).to.deep.equal([101, 103]);
    for (const none of [history.last(3, 110), historyOf(1000).last(900, 1)])
      expect(none).to.deep.include({ timestamps: [], prices: { A: [], B: [] } });
    history.add(101, [7, 8]);
    const restarted = { timestamps: [100, 101], prices: { A: [1, 7], B: [2, 8] } };
    expect(history.last(900, 103), 'after the clock was set back').to.deep.include(restarted);
  });

  it('holds at most 900 seconds of ticks, whatever the interval', () => {
    for (const [interval, held] of Object.entries({ 10: 900, 1000: 900, 5000: 180, 7000: 129, 60000: 15 })) {
      const intervalMs = Number(interval);
      const step = Math.max(1, intervalMs / 1000);
      const history = priceHistory(SYMBOLS, intervalMs);
      const last = 3000 * step;
      for (let second = 0; second <= last; second += step) history.add(second, [second, -second]);
      const { timestamps, prices } = history.last(900, last);
      expect(timestamps, `${intervalMs} ms`).to.have.length(held);
      expect([timestamps[0], timestamps.at(-1)]).to.deep.equal([last - (held - 1) * step, last]);
      expect(prices).to.deep.equal({ A: timestamps, B: timestamps.map((second) => -second) });
      expect(history.size).to.equal(2 * Math.max(held, Math.min(1440, last / 60 + 1)));
    }
  });
});

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

describe('GET /prices/history', () => {
  const shared = onceForSuite(() => startTickerBundle({ intervalMs: 50 }));
  const get = async (query: string, headers?: Record<string, string>) =>
    request(`${shared().url}/prices/history${query}`, { headers: headers ?? bearer(await shared().token()) });

  it('answers with the ticks of the stream', async () => {
    const { status, body, headers } = await eventually(
      () => get(''),
      ({ body: { timestamps } }) => timestamps.length > 1,
    );
    expect([status, headers.get('access-control-allow-origin'), body.interval_ms]).to.deep.equal([200, '*', 50]);
    expect(Object.keys(body.prices)).to.deep.equal(['BTC-USD', 'ETH-USD', 'SOL-USD']);
    for (const prices of Object.values(body.prices)) expect(prices).to.have.length(body.timestamps.length);
    expect(body.prices['BTC-USD'].at(-1)).to.be.within(40_000, 44_000);
    const { mock: taken } = mock.method(ByteBudget.prototype, 'take');
    expect((await get('?seconds=1')).body.timestamps.length).to.be.at.most(1);
    expect(taken.calls.map((call) => (call.this as ByteBudget).limit)).to.deep.equal([8 * 1024 * 1024]);
  });

  it('refuses a number of seconds out of its range, and requires a valid token, which may be in the query', async () => {
    const error = 'seconds must be a whole number from 1 to 86400';
    for (const seconds of ['', '0', '86401', '1.5', '-1', '1e2', 'x'])
      expect(await get(`?seconds=${seconds}`), seconds).to.deep.include({ status: 400, body: { error } });
    expect((await get('?seconds=86400')).status).to.equal(200);
    expect((await get(`?token=${await shared().token()}`, {})).status).to.equal(200);
    for (const headers of [{}, bearer('v3.local.x')])
      expect(await get('', headers)).to.deep.include({ status: 401, body: { error: 'authentication required' } });
  });
});

const START = 1_790_000_000;
const DAY = 86_400;

type SharedStore = { saved?: string; isDown: boolean; saves: number; held?: Promise<void> };

/** A node with a history of its own, whose store fails while it is down, and saves once `held` is fulfilled. */
async function startNode(store: SharedStore, clock: ManualClock, names = SYMBOLS) {
  const history = priceHistory(names, 1000);
  const fail = () => store.isDown && Promise.reject(new Error('the database is down'));
  const { log, lines } = captureLog();
  const node = { isLeader: true, history, lines };
  const kept = await keepPrices({
    history,
    store: {
      reads: { readHistory: async () => (await fail()) || store.saved },
      saveHistory: async (_, text) => {
        store.saves += 1;
        await store.held;
        await fail();
        store.saved = text;
      },
    },
    isLeader: () => node.isLeader,
    clock,
    log,
  });
  const timestamps = (seconds: number) => history.last(seconds, clock.now() / 1000).timestamps;
  return Object.assign(node, { stop: kept.stop, timestamps });
}

describe('the kept history of prices', () => {
  it('has the ticks of before a restart, and the first of each minute of the last day, but none of other symbols', async () => {
    const store: SharedStore = { isDown: false, saves: 0 };
    const clock = new ManualClock(START * 1000);
    const first = await startNode(store, clock);
    for (let second = START - 2 * DAY; second <= START; second++) first.history.add(second, [second, 2]);
    await first.stop();
    clock.advance(10_000);
    const second = await startNode(store, clock, SYMBOLS.toReversed());
    second.history.add(START + 10, [3, 4]);
    expect(second.timestamps(900).slice(-2)).to.deep.equal([START, START + 10]);
    const { timestamps, prices } = second.history.last(DAY, START + 10);
    expect(timestamps).to.have.length(1440);
    expect(timestamps.every((each) => each % 60 === 0)).to.equal(true);
    expect(prices).to.deep.equal({ A: timestamps, B: timestamps.map(() => 2) });
    second.history.merge(store.saved ?? '', START + 10);
    expect(second.history.last(900, START).timestamps[0], 'of the newest 900').to.equal(START - 898);
    const damaged = `[[[${START + 11},1],[${START + 12},null,2],["x",1,2],[${START + 13},5,6,7]]]`;
    second.history.merge(`{"symbols":["A","B"],"series":${damaged}}`, START + 20);
    expect(second.timestamps(900).at(-1), 'without damaged rows').to.equal(START + 10);
    const third = await startNode(store, clock, [{ symbol: 'C', price: 1, decimals: 2 }]);
    expect(third.timestamps(900)).to.deep.equal([]);
    expect(third.lines.at(-1)?.msg).to.match(/^a new history of the prices begins/);
  });

  it('is not replaced by that of a leader that could not read it', async () => {
    const store: SharedStore = { isDown: false, saves: 0 };
    const clock = new ManualClock(START * 1000);
    for (const second of [START - 1, START]) {
      const leader = await startNode(store, clock);
      leader.history.add(second, [1, 2]);
      store.isDown = false;
      await leader.stop();
      store.isDown = true;
    }
    store.isDown = false;
    expect((await startNode(store, clock)).timestamps(900)).to.deep.equal([START - 1, START]);
  });

  it('is saved by the leader once a minute, from which other nodes take what they have missed; a failure of the store delays nothing', async () => {
    const { promise, resolve } = Promise.withResolvers<void>();
    const store: SharedStore = { isDown: false, saves: 0, held: promise };
    const clock = new ManualClock(START * 1000);
    const leader = await startNode(store, clock);
    store.isDown = true;
    leader.history.add(START, [1, 2]);
    clock.advance(60_000);
    const stopped = leader.stop();
    await new Promise(setImmediate);
    expect([store.saves, clock.timers], 'while a save is in progress').to.deep.equal([1, 0]);
    resolve();
    await stopped;
    expect([store.saves, store.saved]).to.deep.equal([2, undefined]);
    store.isDown = false;
    const other = await startNode(store, clock);
    other.isLeader = false;
    other.history.add(START + 1, [1, 2]);
    leader.history.add(START + 600, [1, 2]);
    await leader.stop();
    clock.advance(60_000);
    await until(async () => (await other.timestamps(900)).join() === [START, START + 1].join());
    store.saved = 'damaged';
    await other.stop();
    const next = await startNode(store, clock);
    expect(next.timestamps(900)).to.deep.equal([]);
    await next.stop();
    expect(store.saved, 'replaced').to.not.equal('damaged');
  });
});

import { expect } from 'chai';
import { type PriceHistory, priceHistory } from '../../main/ticker/prices.ts';
import { temporaryFolder } from '../support/cleanup.ts';
import { request } from '../support/program.ts';
import { startTickerBundle, type TickerBundle } from '../support/ticker-bundle.ts';
import { eventually } from '../support/until.ts';

const SYMBOLS = [
  { symbol: 'A', price: 1, decimals: 2 },
  { symbol: 'B', price: 2, decimals: 2 },
];

function historyOf(intervalMs: number, ...ticks: [timestamp: number, ...prices: number[]][]): PriceHistory {
  const history = priceHistory(SYMBOLS, intervalMs);
  for (const [timestamp, ...prices] of ticks) history.add(timestamp, prices);
  return history;
}

describe('the history of prices', () => {
  it('answers the ticks of the last seconds, oldest first, in one array per symbol', () => {
    const history = historyOf(1000, [100, 1, 2], [101, 3, 4], [103, 5, 6]);
    expect(history.last(900, 103)).to.deep.equal({
      interval_ms: 1000,
      timestamps: [100, 101, 103],
      prices: { A: [1, 3, 5], B: [2, 4, 6] },
    });
    expect(history.last(3, 103).timestamps).to.deep.equal([101, 103]);
    expect(history.last(3, 110)).to.deep.include({ timestamps: [], prices: { A: [], B: [] } });
    expect(historyOf(1000).last(900, 1)).to.deep.include({ timestamps: [] });
  });

  it('keeps the last tick of each second', () => {
    const history = historyOf(100, [100, 1, 2], [100, 3, 4], [101, 5, 6], [101, 7, 8]);
    expect(history.last(900, 101)).to.deep.include({ timestamps: [100, 101], prices: { A: [3, 7], B: [4, 8] } });
  });

  it('starts over from where the clock was set back to', () => {
    const history = historyOf(1000, [100, 1, 2], [101, 3, 4], [102, 5, 6], [101, 7, 8]);
    expect(history.last(900, 102)).to.deep.include({ timestamps: [100, 101], prices: { A: [1, 7], B: [2, 8] } });
  });

  it('holds at most 900 seconds of ticks, whatever the interval', () => {
    for (const [intervalMs, step, held] of [
      [10, 1, 900],
      [1000, 1, 900],
      [5000, 5, 180],
      [60_000, 60, 15],
    ] as const) {
      const history = priceHistory(SYMBOLS, intervalMs);
      const last = 3000 * step;
      for (let second = 0; second <= last; second += step) history.add(second, [second, -second]);
      const { timestamps, prices } = history.last(900, last);
      expect(timestamps, `${intervalMs} ms`).to.have.length(held);
      expect([timestamps[0], timestamps.at(-1)]).to.deep.equal([last - 900 + step, last]);
      expect(prices).to.deep.equal({ A: timestamps, B: timestamps.map((second) => -second) });
      expect(history.size).to.equal(2 * held);
    }
  });
});

const bearer = (token: string) => ({ Authorization: `Bearer ${token}` });

async function get({ url, token }: TickerBundle, query = '') {
  return request(`${url}/prices/history${query}`, { headers: bearer(await token()) });
}

describe('GET /prices/history', () => {
  it('answers with the ticks of the stream', async () => {
    const bundle = await startTickerBundle({ intervalMs: 50 });
    const { status, body, headers } = await eventually(
      () => get(bundle),
      ({ body: { timestamps } }) => timestamps.length > 1,
    );
    expect(status).to.equal(200);
    expect(headers.get('access-control-allow-origin')).to.equal('*');
    expect(body.interval_ms).to.equal(50);
    expect(Object.keys(body.prices)).to.deep.equal(['BTC-USD', 'ETH-USD', 'SOL-USD']);
    for (const prices of Object.values(body.prices)) expect(prices).to.have.length(body.timestamps.length);
    expect(body.prices['BTC-USD'].at(-1)).to.be.within(40_000, 44_000);
    expect((await get(bundle, '?seconds=1')).body.timestamps.length).to.be.at.most(1);
  });

  it('refuses a number of seconds out of its range', async () => {
    const bundle = await startTickerBundle();
    for (const seconds of ['', '0', '901', '1.5', '-1', '1e2', 'x']) {
      const { status, body } = await get(bundle, `?seconds=${seconds}`);
      expect([status, body], seconds).to.deep.equal([400, { error: 'seconds must be a whole number from 1 to 900' }]);
    }
    expect((await get(bundle, '?seconds=900')).status).to.equal(200);
  });

  it('requires a valid token, in any form that the stream takes', async () => {
    const bundle = await startTickerBundle();
    const url = `${bundle.url}/prices/history`;
    const token = await bundle.token();
    for (const headers of [{}, bearer('v3.local.x'), { Authorization: token }]) {
      const { status, body } = await request(url, { headers });
      expect([status, body]).to.deep.equal([401, { error: 'authentication required' }]);
    }
    expect((await request(`${url}?token=${token}`)).status).to.equal(200);
    expect((await request(`${bundle.url}/auth/token`, { method: 'DELETE', headers: bearer(token) })).status).to.equal(
      204,
    );
    expect((await request(url, { headers: bearer(token) })).status).to.equal(401);
  });

  it('refuses a token whose scope is empty, and other methods', async () => {
    const { url, apiKey } = await startTickerBundle({ policies: await temporaryFolder() });
    const exchange = await request(`${url}/auth/token`, { method: 'POST', body: JSON.stringify({ api_key: apiKey }) });
    const { status, body } = await request(`${url}/prices/history`, { headers: bearer(exchange.body.token) });
    expect([status, body]).to.deep.equal([403, { error: 'action not allowed' }]);
    const refused = await request(`${url}/prices/history`, { method: 'POST' });
    expect([refused.status, refused.headers.get('allow')]).to.deep.equal([405, 'GET, HEAD, OPTIONS']);
  });
});

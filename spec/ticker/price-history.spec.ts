import { expect } from 'chai';
import { PriceHistory } from '../../main/ticker/price-history.ts';

const SYMBOLS = [
  { symbol: 'A', price: 1, decimals: 2 },
  { symbol: 'B', price: 2, decimals: 2 },
];

const frame = (timestamp: number) => JSON.stringify({ type: 'ticker', data: [{ symbol: 'A', price: 1, timestamp }] });

function historyOf(intervalMs: number, ...ticks: [timestamp: number, ...prices: number[]][]): PriceHistory {
  const history = new PriceHistory(SYMBOLS, intervalMs);
  for (const [timestamp, ...prices] of ticks) history.add(frame(timestamp), prices);
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
      const history = new PriceHistory(SYMBOLS, intervalMs);
      const last = 3000 * step;
      for (let second = 0; second <= last; second += step) history.add(frame(second), [second, -second]);
      const { timestamps, prices } = history.last(900, last);
      expect(timestamps, `${intervalMs} ms`).to.have.length(held);
      expect([timestamps[0], timestamps.at(-1)]).to.deep.equal([last - 900 + step, last]);
      expect(prices).to.deep.equal({ A: timestamps, B: timestamps.map((second) => -second) });
      expect(history.size).to.equal(2 * held);
    }
  });

  it('ignores a message without a timestamp', () => {
    const history = new PriceHistory(SYMBOLS, 1000);
    history.add('{"type":"ticker","data":[]}', [1, 2]);
    expect(history.size).to.equal(0);
  });
});

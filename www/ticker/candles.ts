import type { Stretch } from './history.ts';

/** Candles of equal length, oldest first. `opens`, `highs` and `lows` have one price per candle. */
export interface Candles {
  /** Length of each candle in seconds. */
  length: number;
  opens: number[];
  highs: number[];
  lows: number[];
}

/** `seconds` are the middles of the candles (Unix time), and `prices` are the closing prices. */
export interface CandleStretch extends Stretch {
  candles: Candles;
}

/** Combines the prices from the Unix time `from` into candles that start at multiples of `length` seconds. */
export function toCandles({ seconds, prices }: Stretch, length: number, from: number): CandleStretch {
  const candles: Candles = { length, opens: [], highs: [], lows: [] };
  const middles: number[] = [];
  const closes: number[] = [];
  for (const [index, second] of seconds.entries()) {
    const price = prices[index];
    if (price == null || second < from) continue;
    const middle = Math.floor(second / length) * length + length / 2;
    if (middles.at(-1) !== middle) {
      middles.push(middle);
      candles.opens.push(price);
      candles.highs.push(price);
      candles.lows.push(price);
    }
    const last = middles.length - 1;
    closes[last] = price;
    candles.highs[last] = Math.max(price, candles.highs[last] as number);
    candles.lows[last] = Math.min(price, candles.lows[last] as number);
  }
  return { seconds: middles, prices: closes, candles };
}

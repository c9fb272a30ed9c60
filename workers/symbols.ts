/** Symbol of the ticker. Every array of prices is in the order of the configured symbols. */
export interface TickerSymbol {
  symbol: string;
  /** Initial price, unless a declaration says that it is the last known price. */
  price: number;
  /** Number of decimals to which prices are rounded. */
  decimals: number;
}

/** Price of one symbol in a message to clients. `timestamp` is in Unix seconds. */
export interface TickerPrice {
  symbol: string;
  price: number;
  timestamp: number;
}

/** The specification's symbols and initial prices. `TICKER_SYMBOLS` replaces them. */
export const defaultSymbols: readonly TickerSymbol[] = [
  { symbol: 'BTC-USD', price: 42_000, decimals: 2 },
  { symbol: 'ETH-USD', price: 2_500, decimals: 2 },
  { symbol: 'SOL-USD', price: 95, decimals: 2 },
];

export const MAX_SYMBOLS = 64;

const FORMAT = /^([A-Z0-9]{1,16}(?:-[A-Z0-9]{1,16})?):(\d{1,13}(?:\.(\d{1,8}))?)$/;
const MAX_PRICE = 1e12;
/** Largest initial price in units of its last decimal place. A double represents it exactly, and leaves room for the price to rise. */
const MAX_UNITS = 1e14;

/**
 * Parses a symbol with its price, such as `BTC-USD:42000`. Prices have as many decimals as the text, but at least two. Returns
 * undefined if the text is invalid.
 */
export function parseSymbol(text: string): TickerSymbol | undefined {
  const [, symbol, digits, fraction = ''] = FORMAT.exec(text) ?? [];
  if (symbol === undefined) return undefined;
  const price = Number(digits);
  const decimals = Math.max(2, fraction.length);
  const isInRange = price > 0 && price <= MAX_PRICE && price * 10 ** decimals <= MAX_UNITS;
  return isInRange ? { symbol, price, decimals } : undefined;
}

/** Returns the names of symbols as one string, so that nodes can compare their symbols. */
export function symbolNames(symbols: readonly TickerSymbol[]): string {
  return symbols.map(({ symbol }) => symbol).join();
}

/** Rounds a price to a number of decimals. */
export function roundPrice(price: number, decimals: number): number {
  const unitsPerOne = 10 ** decimals;
  return Math.round(price * unitsPerOne) / unitsPerOne;
}

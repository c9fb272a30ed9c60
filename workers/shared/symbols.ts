/** A ticker symbol and its price. Arrays of prices are in the order of the configured symbols. */
export interface TickerSymbol {
  symbol: string;
  /** Initial price. `PriceSource.start` receives the last known price instead. */
  price: number;
  decimals: number;
}

/** Symbols of the specification, used unless `TICKER_SYMBOLS` is set. */
export const defaultSymbols: readonly TickerSymbol[] = [
  { symbol: 'BTC-USD', price: 42_000, decimals: 2 },
  { symbol: 'ETH-USD', price: 2_500, decimals: 2 },
  { symbol: 'SOL-USD', price: 95, decimals: 2 },
];

export const MAX_SYMBOLS = 64;

const FORMAT = /^([A-Z0-9]{1,16}(?:-[A-Z0-9]{1,16})?):(\d{1,13}(?:\.(\d{1,8}))?)$/;
const MAX_PRICE = 1e12;
/** Maximum initial price without its decimal point: 1.25 counts as 125. Far below 2^53, so that prices can rise. */
const MAX_UNITS = 1e14;

/** Parses a symbol and its price, such as `BTC-USD:42000`. A price has at least two decimals. */
export function parseSymbol(text: string): TickerSymbol | undefined {
  const [, symbol, digits, fraction = ''] = FORMAT.exec(text) ?? [];
  if (symbol === undefined) return undefined;
  const price = Number(digits);
  const decimals = Math.max(2, fraction.length);
  const isInRange = price > 0 && price <= MAX_PRICE && price * 10 ** decimals <= MAX_UNITS;
  return isInRange ? { symbol, price, decimals } : undefined;
}

/** Returns the names of symbols as one string, by which nodes compare their symbols. */
export function symbolNames(symbols: readonly TickerSymbol[]): string {
  return symbols.map(({ symbol }) => symbol).join();
}

export function roundPrice(price: number, decimals: number): number {
  const unitsPerOne = 10 ** decimals;
  return Math.round(price * unitsPerOne) / unitsPerOne;
}

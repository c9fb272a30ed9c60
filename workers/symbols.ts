/** Symbols of the ticker and their initial prices in dollars. Every array of prices has the same order. */
export const initialPrices = {
  'BTC-USD': 42_000,
  'ETH-USD': 2_500,
  'SOL-USD': 95,
} as const;

export type PriceSymbol = keyof typeof initialPrices;
export const symbols = Object.keys(initialPrices) as PriceSymbol[];

/** Price of one symbol in a message to clients. `price` is in dollars with two decimals, `timestamp` in Unix seconds. */
export interface TickerPrice {
  symbol: PriceSymbol;
  price: number;
  timestamp: number;
}

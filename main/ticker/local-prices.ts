import type { Clock } from '../../workers/shared/clock.ts';
import type { TickerSymbol } from '../../workers/shared/symbols.ts';
import type { Price } from '../../www/client/tick-stream.ts';
import type { TickerClient } from '../../www/client/ticker-client.ts';
import { parseSeconds } from './prices.ts';
import type { Ticker } from './ticker.ts';

/** Returns the prices for this process, like a client of the ticker. `close` ends all iterations. */
export function localPrices(ticker: Ticker, known: readonly TickerSymbol[], clock: Clock) {
  const closed = new AbortController();
  const names = known.map(({ symbol }) => symbol);
  const client: Pick<TickerClient, 'prices' | 'history'> = {
    async *prices({ symbols = names, signal } = {}) {
      const unknown = symbols.find((symbol) => !names.includes(symbol));
      if (unknown !== undefined) throw new RangeError(`unknown symbol ${unknown}: the service has ${names.join(', ')}`);
      let newest: string | undefined;
      let wake = () => {};
      const unfollow = ticker.follow(({ data }) => {
        newest = data;
        wake();
      });
      const over = AbortSignal.any(signal ? [signal, closed.signal] : [closed.signal]);
      over.addEventListener('abort', () => wake());
      try {
        while (!closed.signal.aborted) {
          signal?.throwIfAborted();
          const text = newest;
          newest = undefined;
          // Parsed for each reader, so that none can change the prices of another.
          if (text !== undefined)
            yield (JSON.parse(text).data as Price[]).filter(({ symbol }) => symbols.includes(symbol));
          else
            await new Promise<void>((resolve) => {
              wake = resolve;
            });
        }
      } finally {
        unfollow();
      }
    },
    async history({ seconds, signal } = {}) {
      signal?.throwIfAborted();
      return ticker.history.last(parseSeconds(seconds?.toString()), Math.floor(clock.now() / 1000));
    },
  };
  return { ...client, close: () => closed.abort() };
}

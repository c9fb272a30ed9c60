import type { Page, WebSocketRoute } from 'playwright-core';

/** Stream of prices that a spec sends to a page instead of the service. */
export interface ImitatedStream {
  /** Imitates the stream, and the history with the given ticks. Without them, the history cannot be read. Call it before the page loads. */
  prepare(
    page: Page,
    past?: { interval_ms: number; ticks: (readonly [second: number, price: number])[] },
  ): Promise<void>;
  /** Sends a price of BTC-USD. */
  send(timestamp: number, price: number): void;
  /** Number of pings that the page has sent. Each is answered at once. */
  readonly pings: number;
  close(code: number, reason: string): Promise<void>;
}

/** Creates a stream whose snapshot is the price 100 at the Unix time `now()`. */
export function imitateStream(now: () => number): ImitatedStream {
  let stream: WebSocketRoute | undefined;
  let pings = 0;
  const send = (timestamp: number, price: number) => {
    const data = [{ symbol: 'BTC-USD', price, timestamp }];
    stream?.send(JSON.stringify({ type: 'ticker', data }));
  };
  return {
    send,
    get pings() {
      return pings;
    },
    close: async (code, reason) => stream?.close({ code, reason }),
    async prepare(page, past) {
      await page.routeWebSocket('**/ws/ticker', (route) => {
        stream = route;
        route.onMessage(() => {
          pings += 1;
          route.send('{"type":"pong"}');
        });
        send(now(), 100);
      });
      await page.route('**/prices/history?*', (route) => {
        if (past === undefined) return route.abort();
        const { interval_ms, ticks } = past;
        const timestamps = ticks.map(([second]) => second);
        return route.fulfill({
          json: { interval_ms, timestamps, prices: { 'BTC-USD': ticks.map(([, price]) => price) } },
        });
      });
    },
  };
}

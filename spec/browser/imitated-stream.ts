import type { Page, WebSocketRoute } from 'playwright-core';

/** Stream of prices that a spec sends to a page instead of the service. */
export interface ImitatedStream {
  /** Imitates the stream, and the history with the given ticks. Without them, the history cannot be read. Call it before the page loads. */
  prepare(page: Page, past?: readonly (readonly [second: number, price: number])[]): Promise<void>;
  /** Sends a price of BTC-USD in the next tick. @param skipped number of ticks before it that are not sent */
  send(timestamp: number, price: number, skipped?: number): void;
  /** Number of pings that the page has sent. Each is answered at once. */
  readonly pings: number;
  close(code: number, reason: string): Promise<void>;
}

/** Creates a stream whose snapshot is the price 100 at the Unix time `now()`. A page that resumes has missed nothing. */
export function imitateStream(now: () => number, interval_ms = 1_000): ImitatedStream {
  let stream: WebSocketRoute | undefined;
  let pings = 0;
  let seq = 0;
  const sendTick = (timestamp: number, price: number) => {
    const data = [{ symbol: 'BTC-USD', price, timestamp }];
    stream?.send(JSON.stringify({ type: 'ticker', epoch: 1, seq, data }));
  };
  return {
    send(timestamp, price, skipped = 0) {
      seq += skipped + 1;
      sendTick(timestamp, price);
    },
    get pings() {
      return pings;
    },
    close: async (code, reason) => stream?.close({ code, reason }),
    async prepare(page, past) {
      await page.routeWebSocket('**/ws/ticker', (route) => {
        stream = route;
        route.onMessage((text) => {
          if (JSON.parse(String(text)).type !== 'ping') return;
          pings += 1;
          route.send('{"type":"pong"}');
        });
        const fields = { user_id: 'user:demo', epoch: 1, interval_ms, symbols: ['BTC-USD'] };
        route.send(JSON.stringify({ type: 'welcome', ...fields }));
        sendTick(now(), 100);
      });
      await page.route('**/prices/history?*', (route) => {
        if (past === undefined) return route.abort();
        const timestamps = past.map(([second]) => second);
        const prices = { 'BTC-USD': past.map(([, price]) => price) };
        return route.fulfill({ json: { interval_ms, timestamps, prices } });
      });
    },
  };
}

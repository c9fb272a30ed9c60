import type { Page, WebSocketRoute } from 'playwright-core';

/** Script that sets the page's reconnect delay to more than 15 minutes, so that any earlier reconnect has another cause. */
export const LONG_RECONNECT = 'Math.random = () => 1_000';

/** Start of imitated streams, in Unix seconds. */
export const START = 1_800_000_000;

export const shown = (page: Page, symbol: string, name: string): Promise<string | null> =>
  page.locator(`[data-symbol="${symbol}"] [data-part="${name}"]`).first().textContent();

/** Creates a stream that a page gets instead of that of the service. Its snapshot is the price 100 at the Unix time `now()`. */
export function imitateStream(now = () => START, interval_ms = 1_000) {
  let stream: WebSocketRoute | undefined;
  let seq = 0;
  const sendTick = (timestamp: number, price: number) => {
    const data = [{ symbol: 'BTC-USD', price, timestamp }];
    stream?.send(JSON.stringify({ type: 'ticker', epoch: 1, seq, data }));
  };
  return {
    requested: [] as (string | null)[],
    /** Number of pings that the page has sent. Each is answered at once. */
    pings: 0,
    /** Sends a price of BTC-USD in the next tick. @param skipped number of ticks before it that are not sent */
    send(timestamp: number, price: number, skipped = 0) {
      seq += skipped + 1;
      sendTick(timestamp, price);
    },
    close: async (code: number, reason: string) => stream?.close({ code, reason }),
    /** Imitates the stream, and the history with the given ticks. Without them, the history cannot be read. */
    async prepare(page: Page, past?: readonly (readonly [second: number, price: number])[]) {
      await page.routeWebSocket('**/ws/ticker', (route) => {
        stream = route;
        route.onMessage((text) => {
          if (JSON.parse(String(text)).type !== 'ping') return;
          this.pings += 1;
          route.send('{"type":"pong"}');
        });
        const fields = { user_id: 'user:demo', epoch: 1, interval_ms, symbols: ['BTC-USD'] };
        route.send(JSON.stringify({ type: 'welcome', ...fields }));
        sendTick(now(), 100);
      });
      await page.route('**/prices/history?*', (route) => {
        this.requested.push(new URL(route.request().url()).searchParams.get('seconds'));
        if (past === undefined) return route.abort();
        const timestamps = past.map(([second]) => second);
        const prices = { 'BTC-USD': past.map(([, price]) => price) };
        return route.fulfill({ json: { interval_ms, timestamps, prices } });
      });
    },
  };
}

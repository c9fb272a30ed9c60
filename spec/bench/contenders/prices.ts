import type { Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { startSchedule, systemClock } from '../../../workers/shared/clock.ts';

/** A tick of the size and shape that the product sends, for peers that do not compute prices. */
export function tickText(): string {
  const timestamp = Math.floor(Date.now() / 1000);
  const price = () => Math.round(Math.random() * 100_000) / 100;
  const data = ['BTC-USD', 'ETH-USD', 'SOL-USD'].map((symbol) => ({ symbol, price: 42_000 + price(), timestamp }));
  return JSON.stringify({ type: 'ticker', data });
}

export const everySecond = (tick: () => void) => startSchedule(systemClock, 1000, async () => tick());

export function tellPort(server: Server, backlog = 511): void {
  server.listen(0, '127.0.0.1', backlog, () => {
    console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
  });
}

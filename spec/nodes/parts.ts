import { expect } from 'chai';
import { Bus, type BusMessage } from '../../main/nodes/bus.ts';
import { type Clock, systemClock, systemRandom } from '../../workers/shared/clock.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { openDatabase } from '../support/servers.ts';
import { pricesOf } from '../support/ticker.ts';

export async function openBus(databaseUrl: string, clock: Clock = systemClock, database = openDatabase(databaseUrl)) {
  const captured = captureLog();
  const bus = new Bus({ databaseUrl, database, clock, random: systemRandom, log: captured.log });
  afterTest(() => bus.close());
  const received: BusMessage[] = [];
  const counts = { missed: 0 };
  bus.on('message', ({ from: _, ...message }: BusMessage & { from?: string }) => received.push(message as BusMessage));
  bus.on('missed', () => void counts.missed++);
  await bus.open();
  return { ...captured, bus, received, counts };
}

export const pricesIn = (data: string) => pricesOf({ topic: 'ws.send', type: 'text', data });

/** Asserts that no price changes by more than the specified maximum a tick, if at most `lost` ticks are lost on end. */
export function expectSmoothPrices(texts: readonly string[], lost = 0): void {
  const all = texts.map(pricesIn);
  for (const [index, prices] of all.slice(1).entries())
    for (const [symbol, price] of prices) {
      const before = all[index]?.get(symbol) ?? Number.NaN;
      const most = (before * 0.001 + 0.00501) * (lost + 1);
      expect(Math.abs(price - before), `${symbol}: ${before}, ${price}`).to.be.at.most(most);
    }
}

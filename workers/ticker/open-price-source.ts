import { importUserModule } from '../shared/user-module.ts';
import { priceWalk, seededPrices } from './computed-prices.ts';
import type { TickerStart } from './messages.ts';
import { priceRecording } from './price-recording.ts';
import type { PriceSource } from './sourced-prices.ts';

type PriceSourceSettings = Pick<TickerStart, 'source' | 'seed' | 'symbols' | 'intervalMs'>;

/** Whether a price source is a module. A module can throw at any time, for example in a timer. */
export function isModule(source: string | undefined): source is string {
  return source !== undefined && !source.toLowerCase().endsWith('.csv');
}

/** @throws {Error} with the reason if the file or module of the price source cannot be used */
export function openPriceSource({ source, seed, symbols, intervalMs }: PriceSourceSettings) {
  if (seed !== undefined) return seededPrices(seed, intervalMs, symbols);
  if (source === undefined) return priceWalk(symbols);
  return isModule(source) ? importSource(source) : priceRecording(source, symbols);
}

async function importSource(name: string): Promise<PriceSource> {
  const source = (await importUserModule(name)) as Partial<PriceSource> | null | undefined;
  if (typeof source?.prices !== 'function') throw new Error('its default export has no function prices');
  const { start } = source;
  if (start !== undefined && typeof start !== 'function')
    throw new Error('start of its default export is not a function');
  return source as PriceSource;
}

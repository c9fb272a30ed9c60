import type { TickerSymbol } from '../shared/symbols.ts';
import { importUserModule } from '../shared/user-module.ts';
import { PriceWalk, SeededPrices } from './computed-prices.ts';
import { PriceRecording } from './price-recording.ts';
import type { PriceSource } from './sourced-prices.ts';

export interface PriceSourceSettings {
  /** CSV file or module that supplies the prices. If undefined, prices are computed. */
  source: string | undefined;
  /** Seed of deterministic prices. If undefined, computed prices are random. */
  seed: string | undefined;
  symbols: readonly TickerSymbol[];
  intervalMs: number;
}

/** Whether a price source is a module. A module can throw at any time, for example in a timer. */
export function isModule(source: string | undefined): source is string {
  return source !== undefined && !isRecording(source);
}

function isRecording(source: string): boolean {
  return source.toLowerCase().endsWith('.csv');
}

/** @throws {Error} with the reason if the file or module of the price source cannot be used */
export function openPriceSource(settings: PriceSourceSettings): PriceSource | Promise<PriceSource> {
  const { source, seed, symbols, intervalMs } = settings;
  if (seed !== undefined) return new SeededPrices(seed, intervalMs, symbols);
  if (source === undefined) return new PriceWalk(symbols);
  return isRecording(source) ? new PriceRecording(source, symbols) : importSource(source);
}

async function importSource(name: string): Promise<PriceSource> {
  const source = (await importUserModule(name)) as Partial<PriceSource> | null | undefined;
  if (typeof source?.prices !== 'function') throw new Error('its default export has no function prices');
  const { start } = source;
  if (start !== undefined && typeof start !== 'function')
    throw new Error('start of its default export is not a function');
  return {
    start: (symbols) => source.start?.(symbols),
    prices: (due, last) => (source as PriceSource).prices(due, last),
  };
}

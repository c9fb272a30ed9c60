import { readFileSync, statSync } from 'node:fs';
import { roundPrice, type TickerSymbol } from '../shared/symbols.ts';
import type { PriceSource, Prices } from './sourced-prices.ts';

const MAX_FILE_BYTES = 64 * 1024 * 1024;

/**
 * Replays recorded prices, one row of a CSV file per tick. Starts over after the last row. The column named after a symbol
 * has the symbol's prices.
 *
 * @throws {Error} with the number of an invalid line
 */
export function priceRecording(file: string, symbols: readonly TickerSymbol[]) {
  const recorded = parse(read(file), symbols);
  const width = symbols.length;
  const rows = recorded.length / width;
  let next = 0;
  return {
    rows,
    /** Continues after the first row that matches the last known prices, or starts with the first row. */
    start(last: readonly TickerSymbol[]): void {
      const isLast = (row: number) => last.every(({ price }, column) => recorded[row * width + column] === price);
      let row = 0;
      while (row < rows && !isLast(row)) row++;
      next = row < rows ? row + 1 : 0;
    },
    prices(): Prices {
      const row = next % rows;
      next = row + 1;
      return recorded.subarray(row * width, (row + 1) * width);
    },
  } satisfies PriceSource & { rows: number };
}

function read(file: string): string {
  const { size } = statSync(file);
  if (size > MAX_FILE_BYTES) throw new Error(`the file has more than ${MAX_FILE_BYTES / 1024 / 1024} MiB`);
  return readFileSync(file, 'utf8').replace(/^\uFEFF/, '');
}

function parse(text: string, symbols: readonly TickerSymbol[]): Float64Array {
  const lines = text.split('\n');
  const names = fields(lines[0] ?? '');
  const columns = symbols.map(({ symbol, decimals }) => {
    const index = names.indexOf(symbol);
    if (index === -1) throw new Error(`line 1 names no column ${symbol}`);
    if (names.includes(symbol, index + 1)) throw new Error(`line 1 names the column ${symbol} twice`);
    return { symbol, decimals, index };
  });
  const prices: number[] = [];
  for (const [index, line] of lines.entries()) {
    if (index === 0 || line.trim() === '') continue;
    const row = fields(line);
    if (row.length !== names.length) {
      throw new Error(`line ${index + 1} has ${row.length} fields, and line 1 has ${names.length}`);
    }
    for (const column of columns) prices.push(parsePrice(row[column.index] as string, column, index + 1));
  }
  if (prices.length === 0) throw new Error('the file has no prices');
  return Float64Array.from(prices);
}

function parsePrice(field: string, { symbol, decimals }: Omit<TickerSymbol, 'price'>, line: number): number {
  const price = field === '' ? Number.NaN : roundPrice(Number(field), decimals);
  if (price > 0 && price < Number.POSITIVE_INFINITY) return price;
  const expected = `a positive number with at most ${decimals} decimals`;
  throw new Error(`line ${line}: ${symbol} must be ${expected}, got ${JSON.stringify(field.slice(0, 40))}`);
}

/** Does not support commas within quotes. */
function fields(line: string): string[] {
  return line.split(',').map((field) => field.trim().replace(/^"(.*)"$/, '$1'));
}

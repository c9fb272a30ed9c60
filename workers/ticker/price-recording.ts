import { readFileSync, statSync } from 'node:fs';
import { roundPrice, type TickerSymbol } from '../shared/symbols.ts';
import type { PriceSource, Prices } from './sourced-prices.ts';

const MAX_FILE_BYTES = 64 * 1024 * 1024;

/** Replays recorded prices, one row of a CSV file per tick. Starts over after the last row. */
export class PriceRecording implements PriceSource {
  readonly #prices: Float64Array;
  readonly #width: number;
  #next = 0;

  /** The column named after a symbol has the symbol's prices. @throws {Error} with the number of an invalid line */
  constructor(file: string, symbols: readonly TickerSymbol[]) {
    this.#prices = parse(read(file), symbols);
    this.#width = symbols.length;
  }

  get rows(): number {
    return this.#prices.length / this.#width;
  }

  /** Continues after the first row that matches the last known prices, or starts with the first row. */
  start(symbols: readonly TickerSymbol[]): void {
    const last = symbols.map(({ price }) => price);
    const isLast = (row: number) => last.every((price, column) => this.#prices[row * this.#width + column] === price);
    let row = 0;
    while (row < this.rows && !isLast(row)) row++;
    this.#next = row < this.rows ? row + 1 : 0;
  }

  prices(): Prices {
    const row = this.#next % this.rows;
    this.#next = row + 1;
    return this.#prices.subarray(row * this.#width, (row + 1) * this.#width);
  }
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

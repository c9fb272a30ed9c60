import { truncate } from 'node:fs/promises';
import { expect } from 'chai';
import type { TickerSymbol } from '../../../workers/shared/symbols.ts';
import { priceRecording } from '../../../workers/ticker/price-recording.ts';
import { temporaryFile } from '../../support/cleanup.ts';

const SYMBOLS: readonly TickerSymbol[] = [
  { symbol: 'BTC-USD', price: 42_000, decimals: 2 },
  { symbol: 'DOGE-USD', price: 0.08, decimals: 5 },
];

const record = (text: string) => temporaryFile('prices.csv', text);

const replay = (recording: ReturnType<typeof priceRecording>, ticks: number) =>
  Array.from({ length: ticks }, () => [...recording.prices()]);

describe('a recording of prices', () => {
  it('continues after the row with the last known prices', async () => {
    const recording = priceRecording(await record('BTC-USD,DOGE-USD\n1,1\n2,1\n3,1\n'), SYMBOLS);
    const start = (...prices: number[]) =>
      recording.start(SYMBOLS.map((each, index) => ({ ...each, price: prices[index] ?? 0 })));
    start(2, 1);
    expect(replay(recording, 2).flat()).to.deep.equal([3, 1, 1, 1]);
    start(3, 1);
    expect(replay(recording, 1)).to.deep.equal([[1, 1]]);
    start(2, 2);
    expect(replay(recording, 1)).to.deep.equal([[1, 1]]);
  });

  it('may have quotes, white space, a byte order mark, Windows line ends, blank lines, any order of its columns, and more decimals than are sent', async () => {
    const text = '\uFEFF"time", "DOGE-USD" ,BTC-USD\r\n2026-01-01, 8.1e-2,"42000.126"\r\n\r\n';
    const recording = priceRecording(await record(text), SYMBOLS);
    expect([recording.rows, ...replay(recording, 1)]).to.deep.equal([1, [42_000.13, 0.081]]);
  });

  const header = 'time,BTC-USD,DOGE-USD\n';
  const noPrice = 'must be a positive number with at most';
  it('is refused if it is incomplete, has a price that is none, or is larger than 64 MiB', async () => {
    for (const [text, message] of [
      ['', 'line 1 names no column BTC-USD'],
      ['time,BTC-USD\n1,2\n', 'line 1 names no column DOGE-USD'],
      ['time,BTC-USD,DOGE-USD,BTC-USD\n', 'line 1 names the column BTC-USD twice'],
      [header, 'the file has no prices'],
      [`${header}1,2,3\n1,2\n`, 'line 3 has 2 fields, and line 1 has 3'],
      [`${header}1,x,3\n`, `line 2: BTC-USD ${noPrice} 2 decimals, got "x"`],
      [`${header}1,,3\n`, `line 2: BTC-USD ${noPrice} 2 decimals, got ""`],
      [`${header}1,2,0.000001\n`, `line 2: DOGE-USD ${noPrice} 5 decimals, got "0.000001"`],
      [`${header}1,Infinity,3\n`, `line 2: BTC-USD ${noPrice} 2 decimals, got "Infinity"`],
    ] as const) {
      const file = await record(text);
      expect(() => priceRecording(file, SYMBOLS)).to.throw(message);
    }
    const large = await record(header);
    await truncate(large, 64 * 1024 * 1024 + 1);
    expect(() => priceRecording(large, SYMBOLS)).to.throw('the file has more than 64 MiB');
  });
});

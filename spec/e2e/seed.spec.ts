import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { projectFolder, startServices } from '../support/program.ts';
import { connect, type StreamMessage } from '../support/websocket.ts';

type Price = (seed: string, symbol: string, tick: number) => number;

const INTERVAL_MS = 100;
/** Largest delay of a tick on a loaded machine, in milliseconds. */
const MAX_LATE_MS = 10_000;

/** Returns the guide's price formula, extracted from its text. */
async function formula(): Promise<Price> {
  const guide = await readFile(join(projectFolder, 'www/guide/api.md'), 'utf8');
  const block = /^```js\n(.*?)^```/ms.exec(guide)?.[1];
  if (block === undefined) throw new Error('the guide has no such block');
  const { price } = await import(`data:text/javascript,${encodeURIComponent(`${block}\nexport { price };`)}`);
  return price;
}

/** Whether the prices of a message are those of the tick that was due at its timestamp, or of an earlier one. */
function followsFormula(price: Price, seed: string, { data }: StreamMessage): boolean {
  expect(data).to.have.length(3);
  const last = Math.ceil(((data[0].timestamp + 1) * 1000) / INTERVAL_MS) - 1;
  const ticks = Array.from({ length: 1 + (1000 + MAX_LATE_MS) / INTERVAL_MS }, (_, back) => last - back);
  const matches = (tick: number) =>
    data.every((entry: { symbol: string; price: number }) => entry.price === price(seed, entry.symbol, tick));
  return ticks.some(matches);
}

describe('a ticker with TICKER_SEED', () => {
  it('sends the prices of the formula in the guide at each tick in every process', async () => {
    const price = await formula();
    const env = { TICKER_SEED: 'a seed of mine', TICK_INTERVAL_MS: `${INTERVAL_MS}` };
    for (const services of await Promise.all([startServices({ env }), startServices({ env })])) {
      const client = await connect(services.stream, { token: await services.token() });
      for (let messages = 0; messages < 3; messages++)
        expect(followsFormula(price, env.TICKER_SEED, await client.nextOf('ticker'))).to.equal(true);
    }
  });
});

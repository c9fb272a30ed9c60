import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { inspect, inspectable } from '../support/inspector.ts';
import { projectFolder, startServices } from '../support/program.ts';
import { connect, type StreamMessage } from '../support/websocket.ts';

type Price = (seed: string, symbol: string, tick: number) => number;

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

/**
 * Returns the number of the tick whose prices a message carries: the last tick due by its timestamp, or an earlier
 * one if the message is late. Returns undefined if the prices match no tick.
 */
function tickOf(price: Price, seed: string, intervalMs: number, { data }: StreamMessage): number | undefined {
  expect(data).to.have.length(3);
  const end = (data[0].timestamp + 1) * 1000;
  const last = Math.ceil(end / intervalMs) - 1;
  return Array.from({ length: 1 + (1000 + MAX_LATE_MS) / intervalMs }, (_, back) => last - back).find((tick) =>
    data.every((entry: { symbol: string; price: number }) => entry.price === price(seed, entry.symbol, tick)),
  );
}

describe('a ticker with a seed', () => {
  it('sends the prices of the formula in the guide, tick by tick, in every process', async () => {
    const price = await formula();
    const env = { TICKER_SEED: 'a seed of mine' };
    for (const services of await Promise.all([startServices({ env }), startServices({ env })])) {
      const client = await connect(services.stream, { token: await services.token() });
      for (let messages = 0; messages < 3; messages++) {
        expect(tickOf(price, env.TICKER_SEED, 1000, await client.nextOf('ticker'))).to.be.a('number');
      }
    }
  });

  it('continues with them after its thread has died', async () => {
    const price = await formula();
    const env = { TICKER_SEED: 'x', TICK_INTERVAL_MS: '100' };
    const services = await startServices({ nodeOptions: inspectable, env });
    const inspector = await inspect(services);
    await inspector.alive(/ticker/, 1);
    const client = await connect(services.stream, { token: await services.token() });
    await client.nextOf('ticker');
    await inspector.kill(/ticker/).dead;
    const deathAt = Date.now();
    let tick = 0;
    while (tick * 100 <= deathAt) {
      const next = tickOf(price, 'x', 100, await client.nextOf('ticker'));
      expect(next).to.be.a('number');
      tick = next as number;
    }
  });
});

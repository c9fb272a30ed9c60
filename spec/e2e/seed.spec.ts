import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { expect } from 'chai';
import { projectFolder, startServices } from '../support/program.ts';
import { connect } from '../support/websocket.ts';

type Price = (seed: string, symbol: string, tick: number) => number;

/** The formula that the README gives, as it is written there. */
async function formula(): Promise<Price> {
  const readme = await readFile(join(projectFolder, 'README.md'), 'utf8');
  const block = /^```js\n(.*?)^```/ms.exec(readme)?.[1];
  if (block === undefined) throw new Error('the README has no such block');
  const { price } = await import(`data:text/javascript,${encodeURIComponent(`${block}\nexport { price };`)}`);
  return price;
}

describe('a ticker with a seed', () => {
  it('sends the prices that the formula of the README tells, tick by tick, in every process', async () => {
    const price = await formula();
    const env = { TICKER_SEED: 'a seed of mine' };
    for (const services of await Promise.all([startServices({ env }), startServices({ env })])) {
      const client = await connect(services.stream, { token: await services.token() });
      for (let messages = 0; messages < 3; messages++) {
        const { data } = await client.nextOf('ticker');
        expect(data).to.have.length(3);
        for (const { symbol, price: sent, timestamp } of data) {
          expect(sent).to.equal(price(env.TICKER_SEED, symbol, timestamp));
        }
      }
    }
  });

  it('goes on with them when its thread dies', async () => {
    const price = await formula();
    const env = { TICKER_SEED: 'x', TICK_INTERVAL_MS: '100' };
    const { stream, token } = await startServices({ env });
    const client = await connect(stream, { token: await token() });
    const seen: number[] = [];
    while (seen.length < 5) seen.push((await client.nextOf('ticker')).data[0].price);
    const now = Math.floor(Date.now() / 100);
    const expected = Array.from({ length: 40 }, (_, back) => price('x', 'BTC-USD', now - back));
    expect(expected).to.include.members(seen);
  });
});

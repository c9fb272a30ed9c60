import { expect } from 'chai';
import { type Tick, TickerClient } from '../../www/client.ts';
import { afterTest } from '../support/cleanup.ts';
import { examples } from '../support/examples.ts';
import { startServices } from '../support/program.ts';

describe('a ticker with TICKER_SEED', () => {
  it('sends at each tick the prices of the formula in the guide, for the number of the tick', async () => {
    const [formula = ''] = examples('www/guide/api.md', 'Ticker, port 8081', 'js');
    const { price } = await import(`data:text/javascript,${encodeURIComponent(`${formula}\nexport { price };`)}`);
    const env = { TICKER_SEED: 'a seed of mine', TICK_INTERVAL_MS: '100' };
    const { ticker, apiKey } = await startServices({ env });
    const client = new TickerClient(ticker, { apiKey });
    afterTest(() => client.close());
    const ticks = client.ticks();
    for (let count = 0; count < 3; count++) {
      const { seq, prices } = (await ticks.next()).value as Tick;
      expect(prices).to.have.length(3);
      for (const entry of prices) expect(entry.price).to.equal(price(env.TICKER_SEED, entry.symbol, seq));
    }
  });
});

import { expect } from 'chai';
import { temporaryFile } from '../../support/cleanup.ts';
import { examples } from '../../support/examples.ts';
import { type RunningServices, request, startServices, untilAnswer } from '../../support/program.ts';
import { serve } from '../../support/server.ts';
import { until } from '../../support/until.ts';
import { connect, type StreamClient } from '../../support/websocket.ts';

const FILE = 'www/guide/prices.md';

/** Returns the settings that an example sets before `npm start`. */
function settings(heading: string): Record<string, string> {
  const [command = ''] = examples(FILE, heading);
  expect(command).to.match(/ npm start\n$/);
  return Object.fromEntries([...command.matchAll(/(\w+)=(\S+)/g)].map(([, name, value]) => [name, value]));
}

async function source(heading: string, language: string, adapt = (text: string) => text) {
  const [text = ''] = examples(FILE, heading, language);
  return temporaryFile(settings(heading).PRICE_SOURCE ?? '', adapt(text));
}

const follow = async (services: RunningServices) => connect(services.stream, { token: await services.token() });

async function nextPrices(client: StreamClient): Promise<number[]> {
  return (await client.nextOf('ticker')).data.map(({ price }: { price: number }) => price);
}

const untilPrices = (client: StreamClient, prices: number[] = []) =>
  until(async () => (await nextPrices(client)).join() === prices.join());

describe('the prices of the guide', () => {
  it('have the symbols of the example', async () => {
    const services = await startServices({ env: settings('Symbols') });
    const { data } = await (await follow(services)).nextOf('ticker');
    expect(data.map(({ symbol }: { symbol: string }) => symbol)).to.deep.equal(['BTC-USD', 'XRP-EUR', 'GOLD']);
    const { body } = await request(`${services.admin}/asyncapi.json`);
    const [example] = body.components.messages.ticker.examples;
    expect(example.payload.data.map(({ price }: { price: number }) => price)).to.deep.equal([42_000, 0.5123, 1999.5]);
  });

  it('are replayed from a recording repeatedly', async () => {
    const heading = 'Replay of recorded prices';
    const PRICE_SOURCE = await source(heading, 'csv');
    const services = await startServices({ env: { PRICE_SOURCE, TICK_INTERVAL_MS: '100' } });
    const client = await follow(services);
    const [, ...lines] = examples(FILE, heading, 'csv')[0]?.trim().split('\n') ?? [];
    const rows = lines.map((line) => line.split(',').slice(1).map(Number));
    // Before the first tick, the prices are the initial ones.
    await untilPrices(client, rows[0]);
    for (const row of [...rows.slice(1), ...rows]) expect(await nextPrices(client)).to.deep.equal(row);
  });

  it('come from a module, and stay the same while its service fails', async () => {
    let status = 200;
    const { url } = await serve((_, response) => {
      response.writeHead(status).end('{"SOL-USD":95.5,"BTC-USD":42001.25,"ETH-USD":2501}');
    });
    const { host } = new URL(url);
    const PRICE_SOURCE = await source('Your own source', 'ts', (text) => text.replace('localhost:9000', host));
    const services = await startServices({ env: { PRICE_SOURCE, TICK_INTERVAL_MS: '100' } });
    const client = await follow(services);
    const prices = [42_001.25, 2_501, 95.5];
    await untilPrices(client, prices);
    status = 503;
    const { body } = await untilAnswer(`${services.admin}/readyz`, (found) => found.body.checks.price_source.detail);
    expect(body.checks.price_source.detail).to.equal('prices() failed: the price service answered 503');
    expect(await nextPrices(client)).to.deep.equal(prices);
  });
});

import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { connect } from '../support/websocket.ts';

const TICKER = /ticker/;
const POOL = /piscina/;
/** Two threads of the pool, the ticker's and the one for maintenance. */
const THREADS = 4;
describe('the sudden end of threads under load', () => {
  it(`loses no task and charges none without a crash, and the stream continues, even if all of them end ${seedNote}`, async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ nodeOptions: inspectable, env: { DATA_DIR, QUEUE_DRIVER: 'sqlite' } });
    const inspector = await inspect(services);
    const random = randomFrom(0);
    const client = await connect(services.stream, { token: await services.token() });
    const ledger = new Ledger();
    const stopped = ledger.flood(services.tasks, random, 2);
    let killed = 0;
    await inspector.alive(/./, THREADS);
    for (const { pool, ticker } of [
      { pool: 1, ticker: 0 },
      { pool: 0, ticker: 1 },
      { pool: 2, ticker: 1 },
    ]) {
      await ledger.grows(random.below(30));
      const victims = [inspector.kill(POOL, pool), inspector.kill(TICKER, ticker)];
      expect(victims.map(({ count }) => count)).to.deep.equal([pool, ticker]);
      killed += pool;
      await Promise.all(victims.map(({ dead }) => dead));
      await inspector.alive(/./, THREADS);
      await queueCounts(services.tasks);
    }
    const all = inspector.kill(/./);
    expect(all.count).to.equal(THREADS);
    killed += 2;
    await all.dead;
    await inspector.alive(/./, THREADS);
    await stopped();
    await ledger.settled(services, DATA_DIR);
    const retries = services.lines.filter(({ decision }) => decision === 'retry');
    expect(retries.length).to.be.at.most(killed);
    expect(retries.filter(({ failure }) => failure !== 'crash')).to.deep.equal([]);
    const second = Math.floor(Date.now() / 1000);
    while ((await client.nextOf('ticker')).data[0].timestamp <= second);
  });
});

import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { connect } from '../support/websocket.ts';

const TICKER = /ticker/;
const POOL = /piscina/;

/** Numbers of threads to kill at the same time. */
export interface Victims {
  pool: number;
  ticker: number;
}

/** Defines the spec that kills threads under load, a group of them at a time. */
export function itSurvivesThreadDeaths(driver: 'memory' | 'sqlite', groups: readonly Victims[]): void {
  it(`of pool threads and of the ticker under load, ${driver} queue: threads are replaced, no task is lost ${seedNote}`, async () => {
    const DATA_DIR = await temporaryFolder();
    const env = { DATA_DIR, QUEUE_DRIVER: driver };
    const services = await startServices({ nodeOptions: inspectable, env });
    const inspector = await inspect(services);
    const random = randomFrom(driver.length);
    const client = await connect(services.stream, { token: await services.token() });
    const ledger = new Ledger();
    let over = false;
    const load = ledger.flood(services.tasks, random, { clients: 2, over: () => over });
    let killed = 0;
    for (const { pool, ticker } of groups) {
      await inspector.alive(/./, 3);
      await ledger.grows(random.below(30));
      const victims = [inspector.kill(POOL, pool), inspector.kill(TICKER, ticker)];
      expect(victims.map(({ count }) => count)).to.deep.equal([pool, ticker]);
      killed += pool;
      await Promise.all(victims.map(({ dead }) => dead));
      await inspector.alive(POOL, 2);
      await queueCounts(services.tasks);
    }
    over = true;
    await load;
    await ledger.settled(services, DATA_DIR);
    const crashes = services.lines.filter(({ failure }) => failure === 'crash');
    expect(crashes.length).to.be.at.most(killed);
    expect(services.lines.filter(({ failure }) => failure === 'transient')).to.deep.equal([]);
    const now = Date.now() / 1000;
    while ((await client.nextOf('ticker')).data[0].timestamp <= now);
  }).timeout(60_000);
}

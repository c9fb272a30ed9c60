import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable, sabotage } from '../support/inspector.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { request, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { eventually } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { completed, submit } from './uppercase-tasks.ts';

const TICKER = /ticker/;
const POOL = /piscina/;

describe('the sudden death of pool threads', () => {
  it('loses no task', async () => {
    const services = await startServices({ nodeOptions: inspectable });
    const inspector = await inspect(services);
    await inspector.alive(POOL, 2);
    const before = submit(services, 20);
    const killing = inspector.kill(POOL);
    expect(killing.count).to.equal(2);
    const ids = [...(await before), ...(await submit(services, 20))];
    await completed(services, ids);
    await killing.dead;
    await inspector.alive(POOL, 2);
    await completed(services, await submit(services, 10));
  });

  for (const driver of ['memory', 'sqlite']) {
    it(`and of the ticker under load, ${driver} queue: threads are replaced, no task is lost ${seedNote}`, async () => {
      const DATA_DIR = await temporaryFolder();
      const env = { DATA_DIR, QUEUE_DRIVER: driver };
      const services = await startServices({ nodeOptions: inspectable, env });
      const inspector = await inspect(services);
      const random = randomFrom(driver.length);
      const client = await connect(services.stream, { token: await services.token() });
      const ledger = new Ledger();
      let over = false;
      const load = ledger.flood(services.tasks, random, { clients: 4, over: () => over });
      let killed = 0;
      for (const [pool, ticker] of [
        [1, 0],
        [1, 0],
        [0, 1],
        [2, 0],
        [1, 1],
        [2, 1],
        [1, 0],
        [2, 0],
      ] as const) {
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

  it('counts a crash for the task whose handler was running, and for no other task', async () => {
    const services = await startServices({ nodeOptions: inspectable });
    const inspector = await inspect(services);
    for (let round = 1; round <= 2; round++) {
      await inspector.alive(POOL, 2);
      const folder = await temporaryFolder();
      const [begun, go] = [join(folder, 'begun'), join(folder, 'go')];
      const waitAndDie = `while (!process.getBuiltinModule('fs').existsSync(${JSON.stringify(go)})); process.exit(3);`;
      await inspector.evaluate(POOL, sabotage(waitAndDie, [begun]));
      const [bad] = (await submit(services, 1, 'bad')) as [string];
      await eventually(
        () => existsSync(begun),
        (exists) => exists,
      );
      const others = submit(services, 20);
      writeFileSync(go, '');
      await completed(services, [bad, ...(await others)]);
      const failures = services.lines.filter(({ failure }) => failure !== undefined);
      expect(failures).to.have.length(round);
      expect(failures.at(-1)).to.include({ task: bad, failure: 'crash', attempt: 1, decision: 'retry' });
    }
    const { completed: done, dead } = (await request(`${services.tasks}/queue`)).body;
    expect({ done, dead }).to.deep.equal({ done: 42, dead: 0 });
  });
});

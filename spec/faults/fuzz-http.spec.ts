import { expect } from 'chai';
import fc from 'fast-check';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { sendings } from '../support/http-corpus.ts';
import { checkAnswers, exchange } from '../support/http-exchange.ts';
import { Ledger } from '../support/ledger.ts';
import { startServices } from '../support/program.ts';
import { randomFrom, seed, seedNote } from '../support/seed.ts';
import { watchSteadily } from '../support/steady-client.ts';

const RUNS = Number(process.env.FUZZ_RUNS ?? 60);

describe('malformed HTTP', () => {
  it(`gets proper answers from both services, and is not seen by neighbours ${seedNote}`, async () => {
    const DATA_DIR = await temporaryFolder();
    // The durable queue distinguishes the dead letters of the corpus's tasks from the neighbour's.
    const services = await startServices({ env: { DATA_DIR, QUEUE_DRIVER: 'sqlite' } });
    const client = await watchSteadily(services);
    const ledger = new Ledger();
    let over = false;
    afterTest(() => {
      over = true;
    });
    const isOver = () => over;
    const neighbour = ledger.flood(services.tasks, randomFrom(0), { clients: 1, pauseMs: 20, over: isOver });
    const ports = [services.ticker, services.tasks].map((url) => Number(new URL(url).port));
    const clients = fc.array(sendings, { minLength: 1, maxLength: 8 });
    const property = fc.asyncProperty(fc.constantFrom(...ports), clients, async (port, sent) => {
      for (const wire of await Promise.all(sent.map((pieces) => exchange(port, pieces)))) checkAnswers(wire);
      expect(services.lines.filter(({ level }) => level >= 50)).to.deep.equal([]);
    });
    await fc.assert(property, { seed, numRuns: RUNS, endOnFailure: process.env.FUZZ_SHRINK === undefined });
    over = true;
    await neighbour;
    await ledger.settled(services, DATA_DIR);
    await client.checkAfterNextTick();
    services.child.kill('SIGTERM');
    expect(await services.exited).to.deep.include({ code: 0 });
  }).timeout(30_000 + RUNS * 200);
});

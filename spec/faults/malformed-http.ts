import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { sendings } from '../support/http-corpus.ts';
import { checkAnswers, exchange } from '../support/http-exchange.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { request, startServices } from '../support/program.ts';
import { randomFrom, seed, seedNote } from '../support/seed.ts';
import { watchSteadily } from '../support/steady-client.ts';

/** Defines the spec that sends random HTTP, mostly malformed, by `runs` groups of clients. */
export function describeMalformedHttp(runs: number): void {
  describe('what is no proper HTTP', () => {
    it(`gets proper answers from both services, and is not seen by its neighbours ${seedNote}`, async () => {
      const DATA_DIR = await temporaryFolder();
      // The durable queue distinguishes the dead letters of the corpus's tasks from the neighbour's.
      const services = await startServices({ env: { DATA_DIR, QUEUE_DRIVER: 'sqlite' } });
      const client = await watchSteadily(services);
      const ledger = new Ledger();
      const random = randomFrom(0);
      let over = false;
      afterTest(() => {
        over = true;
      });
      const neighbour = (async () => {
        while (!over) {
          expect(await ledger.submit(services.tasks, random)).to.equal(202);
          // Pause between requests, so that the corpus gets most of the CPU.
          await setTimeout(20);
        }
      })();
      const ports = [services.ticker, services.tasks].map((url) => Number(new URL(url).port));
      const property = fc.asyncProperty(
        fc.constantFrom(...ports),
        fc.array(sendings, { minLength: 1, maxLength: 8 }),
        async (port, clients) => {
          for (const answers of await Promise.all(clients.map((pieces) => exchange(port, pieces))))
            checkAnswers(answers);
          expect(services.lines.find(({ level }) => level >= 50)).to.equal(
            undefined,
            JSON.stringify(services.lines.find(({ level }) => level >= 50)),
          );
        },
      );
      try {
        await fc.assert(property, { seed, numRuns: runs, endOnFailure: process.env.FUZZ_SHRINK === undefined });
      } finally {
        over = true;
      }
      await neighbour;
      await queueCounts(services.tasks);
      await ledger.settled(services, DATA_DIR);
      await client.checkAfterNextTick();
      expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
      services.child.kill('SIGTERM');
      expect(await services.exited).to.deep.include({ code: 0 });
    }).timeout(30_000 + runs * 200);
  });
}

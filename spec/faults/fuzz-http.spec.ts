import { connect } from 'node:net';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import fc from 'fast-check';
import { temporaryFolder } from '../support/cleanup.ts';
import { type Sending, sendings } from '../support/http-corpus.ts';
import { parseResponses } from '../support/http-responses.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { request, startServices } from '../support/program.ts';
import { randomFrom, seed, seedNote } from '../support/seed.ts';
import { watchSteadily } from '../support/steady-client.ts';

const RUNS = Number(process.env.FUZZ_RUNS ?? 200);
/** Whoever has got no answer for so long says that nothing more will come. */
const SILENCE_MS = 30;

/** Sends bytes on a connection of their own, and reads until it is closed. @returns what came back */
async function exchange(port: number, pieces: Sending): Promise<string> {
  const socket = connect({ port, host: '127.0.0.1', noDelay: true });
  const closed = new Promise<void>((resolve) => socket.once('close', () => resolve()));
  let wire = '';
  socket.on('error', () => {});
  socket.setEncoding('latin1').on('data', (text: string) => {
    wire += text;
  });
  socket.setTimeout(SILENCE_MS, () => socket.end());
  for (const piece of pieces) {
    if (socket.destroyed) break;
    socket.write(piece);
    await setTimeout(0);
  }
  await closed;
  return wire;
}

/** Asserts that all that came back is proper HTTP, and every error one of ours. */
function check(wire: string): void {
  const { responses, rest } = parseResponses(wire);
  // Who ends the connection, or still sends when the server does, may lose the end of the last one.
  expect(rest).to.match(/^$|^HTTP\/1\.1 /);
  for (const { status, headers, body } of responses) {
    if (status < 400) continue;
    expect(status, body).to.be.below(500);
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    const error: unknown = JSON.parse(body);
    expect(error).to.have.all.keys('error').and.property('error').that.is.a('string').and.is.not.equal('');
  }
}

describe('what is no proper HTTP', () => {
  for (const service of ['ticker', 'tasks'] as const) {
    it(`gets proper answers from service ${service}, and is not seen by its neighbours ${seedNote}`, async () => {
      const DATA_DIR = await temporaryFolder();
      // Durable: the dead letters of the tasks that come from the corpus can be told from the neighbour's.
      const services = await startServices({ env: { DATA_DIR, QUEUE_DRIVER: 'sqlite' } });
      const client = await watchSteadily(services);
      const ledger = new Ledger();
      const random = randomFrom(service.length);
      let over = false;
      const neighbour = (async () => {
        while (!over) {
          expect(await ledger.submit(services.tasks, random)).to.equal(202);
          await setTimeout(20);
        }
      })();
      const port = Number(new URL(services[service]).port);
      const property = fc.asyncProperty(fc.array(sendings, { minLength: 1, maxLength: 8 }), async (clients) => {
        for (const answers of await Promise.all(clients.map((pieces) => exchange(port, pieces)))) check(answers);
        expect(services.lines.find(({ level }) => level >= 50)).to.equal(
          undefined,
          JSON.stringify(services.lines.find(({ level }) => level >= 50)),
        );
      });
      try {
        await fc.assert(property, { seed, numRuns: RUNS, endOnFailure: process.env.FUZZ_SHRINK === undefined });
      } finally {
        over = true;
      }
      await neighbour;
      await queueCounts(services.tasks);
      await ledger.settled(services, DATA_DIR);
      client.check();
      expect((await request(`${services.tasks}/tasks`)).status).to.equal(200);
      services.child.kill('SIGTERM');
      expect(await services.exited).to.deep.include({ code: 0 });
    }).timeout(30_000 + RUNS * 200);
  }
});

import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { connect, type StreamClient } from '../support/websocket.ts';

const TICKER = /ticker/;
const POOL = /piscina/;
/** Two threads of the pool, the ticker's and the one for maintenance. */
const THREADS = 4;
/** Moves the first price farther from its initial value than a random walk can during a spec. */
const MOVE_PRICE =
  "new Float64Array(process.getBuiltinModule('node:worker_threads').workerData.prices)[0] = 1_000_000;";

/** Stops a thread without using the CPU, which a loop would take from the other specs for seconds. */
const HANG = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0);';

/** Returns the next tick: the first symbol's price and the timestamp. */
async function tick(client: StreamClient): Promise<{ timestamp: number; price: number }> {
  const { data } = await client.nextOf('ticker');
  const { timestamp, price } = data.find(({ symbol }: { symbol: string }) => symbol === 'BTC-USD');
  return { timestamp, price };
}

/** Returns the first tick with a second later than `timeMs`. */
async function tickAfter(client: StreamClient, timeMs: number): Promise<{ timestamp: number; price: number }> {
  for (;;) {
    const next = await tick(client);
    if (next.timestamp > timeMs / 1000) return next;
  }
}

/**
 * Starts a process with one client and moved prices. A new thread that lost its prices would restart at the initial
 * ones.
 */
async function startWithMovedPrice(env: Record<string, string> = {}) {
  const services = await startServices({ nodeOptions: inspectable, env });
  const inspector = await inspect(services);
  await inspector.alive(TICKER, 1);
  const client = await connect(services.stream, { token: await services.token() });
  // A tick shows that the thread has loaded its prices.
  await client.nextOf('ticker');
  await client.nextOf('ticker');
  await inspector.evaluate(TICKER, MOVE_PRICE);
  while ((await tick(client)).price < 900_000);
  return { services, inspector, client };
}

/** Waits for a tick later than `since`, and asserts that its price continues from the moved one. */
async function expectContinued(client: StreamClient, since: unknown): Promise<void> {
  expect((await tickAfter(client, Date.parse(since as string))).price).to.be.within(900_000, 1_100_000);
}

describe('the sudden end', () => {
  it('of the ticker thread, by death or a hang, starts another one that continues at once from the last prices', async () => {
    const { services, inspector, client } = await startWithMovedPrice({ TICK_INTERVAL_MS: '100' });
    expect(inspector.kill(TICKER).count).to.equal(1);
    const death = await services.logged(({ msg }) => msg.startsWith('the ticker thread ended'));
    expect(death.delayMs).to.equal(0);
    await expectContinued(client, death.time);
    const late = await connect(services.stream, { token: await services.token() });
    expect((await late.next()).type).to.equal('welcome');
    expect((await tick(late)).price).to.be.within(900_000, 1_100_000);

    await inspector.alive(TICKER, 1);
    await inspector.evaluate(TICKER, HANG);
    const ledger = new Ledger();
    for (let task = 0; task < 5; task++) await ledger.submit(services.tasks, randomFrom(1));
    await ledger.accountedFor(services.tasks);
    const { time } = await services.logged(({ msg }) => msg === 'the ticker thread hangs: it is terminated');
    await expectContinued(client, time);
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
  });

  it(`of some threads, then of all, under load loses no task, and charges none without a crash ${seedNote}`, async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ nodeOptions: inspectable, env: { DATA_DIR, QUEUE_DRIVER: 'sqlite' } });
    const inspector = await inspect(services);
    const random = randomFrom(0);
    const client = await connect(services.stream, { token: await services.token() });
    const ledger = new Ledger();
    let over = false;
    const load = ledger.flood(services.tasks, random, { clients: 2, over: () => over });
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
    over = true;
    await load;
    await ledger.settled(services, DATA_DIR);
    const retries = services.lines.filter(({ decision }) => decision === 'retry');
    expect(retries.length).to.be.at.most(killed);
    expect(retries.filter(({ failure }) => failure !== 'crash')).to.deep.equal([]);
    await tickAfter(client, Date.now());
  }).timeout(60_000);
});

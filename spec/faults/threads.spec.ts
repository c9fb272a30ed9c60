import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { inspect, inspectable } from '../support/inspector.ts';
import { Ledger, queueCounts } from '../support/ledger.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { connect, type StreamClient } from '../support/websocket.ts';

const TICKER = /ticker/;
const POOL = /piscina/;

/** Submits tasks and returns their ids. */
async function submit({ tasks }: RunningServices, count: number): Promise<string[]> {
  const submission = { action: 'uppercase', data: { text: 'abc' } };
  const answers = await Promise.all(Array.from({ length: count }, () => post(`${tasks}/tasks`, submission)));
  expect(answers.every(({ status }) => status === 202)).to.equal(true);
  return answers.map(({ body }) => body.id);
}

/** Waits until every task has its row. */
async function completed({ tasks }: RunningServices, ids: string[]): Promise<void> {
  for (const missing = new Set(ids); missing.size > 0; ) {
    const { body } = await request(`${tasks}/tasks`);
    for (const { id } of body.tasks) missing.delete(id);
  }
}

async function tick(client: StreamClient): Promise<{ timestamp: number; prices: Map<string, number> }> {
  const { data } = await client.nextOf('ticker');
  const entries = data as { symbol: string; price: number; timestamp: number }[];
  return {
    timestamp: entries[0]?.timestamp ?? 0,
    prices: new Map(entries.map(({ symbol, price }) => [symbol, price])),
  };
}

describe('a ticker thread that hangs', () => {
  it('is followed by another one within seconds, which goes on from the last prices', async () => {
    const services = await startServices({ nodeOptions: inspectable });
    const inspector = await inspect(services);
    await inspector.alive(TICKER, 1);
    const client = await connect(services.stream, { token: await services.token() });
    await tick(client);
    const last = await tick(client);
    inspector.evaluate(TICKER, 'for (;;);');
    await services.logged(({ msg }) => msg === 'the ticker thread hangs: it is ended');
    const next = await tick(client);
    for (const [symbol, price] of next.prices) {
      const was = last.prices.get(symbol) as number;
      expect(Math.abs(price - was)).to.be.at.most(5 * (was * 0.001 + 0.005));
    }
    await completed(services, await submit(services, 5));
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
  });
});

describe('the sudden death', () => {
  it('of the ticker thread costs its clients at most one second, and goes on from the last prices', async () => {
    const services = await startServices({ nodeOptions: inspectable });
    const inspector = await inspect(services);
    await inspector.alive(TICKER, 1);
    const client = await connect(services.stream, { token: await services.token() });
    // Some ticks first, so that the prices have left where a new thread would begin.
    for (let i = 0; i < 3; i++) await tick(client);
    let last = await tick(client);
    expect(inspector.kill(TICKER).count).to.equal(1);
    await services.logged(({ msg }) => msg === 'the ticker thread ended: it is started again');
    for (let i = 0; i < 3; i++) {
      const next = await tick(client);
      expect(next.timestamp - last.timestamp).to.be.within(0, 2);
      for (const [symbol, price] of next.prices) {
        const was = last.prices.get(symbol) as number;
        expect(Math.abs(price - was)).to.be.at.most(2 * (was * 0.001 + 0.005));
      }
      last = next;
    }
    const late = await connect(services.stream, { token: await services.token() });
    expect((await late.next()).type).to.equal('welcome');
    expect((await late.next()).type).to.equal('ticker');
  });

  it('of the ticker thread, again and again, leaves a stream that goes on', async () => {
    const services = await startServices({ nodeOptions: inspectable, env: { TICK_INTERVAL_MS: '50' } });
    const inspector = await inspect(services);
    const client = await connect(services.stream, { token: await services.token() });
    for (let death = 0; death < 4; death++) {
      await inspector.alive(TICKER, 1);
      await inspector.kill(TICKER).dead;
    }
    await inspector.alive(TICKER, 1);
    for (let i = 0; i < 3; i++) await tick(client);
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
  });

  it('of both pool threads loses no task', async () => {
    const services = await startServices({ nodeOptions: inspectable });
    const inspector = await inspect(services);
    await inspector.alive(POOL, 2);
    const before = submit(services, 20);
    expect(inspector.kill(POOL).count).to.equal(2);
    const ids = [...(await before), ...(await submit(services, 20))];
    await completed(services, ids);
    await inspector.alive(POOL, 2);
    await completed(services, await submit(services, 10));
  });

  for (const driver of ['memory', 'sqlite']) {
    it(`of pool threads and ticker under load, ${driver} queue: a new pool within a second, no task lost ${seedNote}`, async () => {
      const DATA_DIR = await temporaryFolder();
      const env = { DATA_DIR, QUEUE_DRIVER: driver };
      const services = await startServices({ nodeOptions: inspectable, env });
      const inspector = await inspect(services);
      const random = randomFrom(driver.length);
      const client = await connect(services.stream, { token: await services.token() });
      const ledger = new Ledger();
      let over = false;
      const load = ledger.flood(services.tasks, random, { clients: 4, over: () => over });
      const waits: number[] = [];
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
        await setTimeout(random.below(100));
        const victims = [inspector.kill(POOL, pool), inspector.kill(TICKER, ticker)];
        killed += pool;
        await Promise.all(victims.map(({ dead }) => dead));
        const since = performance.now();
        await inspector.alive(POOL, 2);
        waits.push(performance.now() - since);
        await queueCounts(services.tasks);
      }
      over = true;
      await load;
      await ledger.settled(services, DATA_DIR);
      waits.sort((a, b) => a - b);
      // Not the longest, which a busy machine may have drawn out.
      expect(waits[waits.length / 2], `ms: ${waits.map(Math.round)}`).to.be.below(1000);
      const crashes = services.lines.filter(({ failure }) => failure === 'crash');
      expect(crashes.length).to.be.at.most(killed);
      const failures = services.lines.filter(({ failure }) => failure === 'transient');
      expect(failures).to.deep.equal([]);
      const now = Date.now() / 1000;
      while ((await tick(client)).timestamp < now);
    }).timeout(40_000);
  }

  it('of a pool thread hits the task that it was on, and no other one', async () => {
    const DATA_DIR = await temporaryFolder();
    const services = await startServices({ nodeOptions: inspectable, env: { DATA_DIR, TASK_PREFETCH: '2' } });
    const inspector = await inspect(services);
    const lock = new DatabaseSync(join(DATA_DIR, 'tasks.db'));
    afterTest(() => lock.close());
    for (let round = 0; round < 2; round++) {
      await inspector.alive(POOL, 2);
      // Both threads wait for the lock, each with a task; one of them is told to end, and wakes up to that.
      lock.exec('BEGIN IMMEDIATE');
      const ids = await submit(services, 4);
      const running = async () => (await request(`${services.tasks}/queue`)).body.in_flight === 2;
      while (!(await running()));
      await setTimeout(50);
      const { count, dead } = inspector.kill(POOL, 1);
      expect(count).to.equal(1);
      lock.exec('COMMIT');
      await dead;
      await completed(services, ids);
    }
    const stored = lock.prepare('SELECT count(*) AS count, count(DISTINCT id) AS ids FROM tasks').get();
    expect({ ...stored }).to.deep.equal({ count: 8, ids: 8 });
    expect(services.lines.filter(({ failure }) => failure !== undefined).length).to.be.at.most(2);
  });

  it('of the ticker thread is not seen by the task queue, nor that of a pool thread by the stream', async () => {
    const services = await startServices({ nodeOptions: inspectable, env: { TICK_INTERVAL_MS: '100' } });
    const inspector = await inspect(services);
    await inspector.alive(/./, 3);
    const client = await connect(services.stream, { token: await services.token() });
    inspector.kill(/./);
    await completed(services, await submit(services, 20));
    for (let i = 0; i < 3; i++) await tick(client);
  });

  it('of a client is seen by no other one', async () => {
    const services = await startServices({ env: { TICK_INTERVAL_MS: '50' } });
    const token = await services.token();
    const survivor = await connect(services.stream, { token });
    const victims = await Promise.all(Array.from({ length: 20 }, () => connect(services.stream, { token })));
    for (const [index, { socket }] of victims.entries()) {
      await tick(survivor);
      // A reset, a cut, and half a frame before the cut.
      const { _socket: raw } = socket as unknown as { _socket: import('node:net').Socket };
      if (index % 3 === 0) raw.resetAndDestroy();
      else if (index % 3 === 1) raw.destroy();
      else raw.end(Buffer.from([0x81, 0xfe, 0x00]));
    }
    await Promise.all(victims.map(({ closed }) => closed));
    for (let i = 0; i < 3; i++) await tick(survivor);
    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });
});

import { expect } from 'chai';
import { inspect, inspectable } from '../support/inspector.ts';
import { startServices } from '../support/program.ts';
import { connect, type StreamClient } from '../support/websocket.ts';
import { completed, submit } from './uppercase-tasks.ts';

const TICKER = /ticker/;
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

describe('the sudden death', () => {
  it('of the ticker thread, or its hang: another one continues at once from the last prices, and nothing else stops', async () => {
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
    await completed(services, await submit(services, 5));
    const { time } = await services.logged(({ msg }) => msg === 'the ticker thread hangs: it is terminated');
    await expectContinued(client, time);
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
  });

  it('of all threads at once, then of the ticker thread again and again: the stream and the task queue both continue', async () => {
    const services = await startServices({ nodeOptions: inspectable, env: { TICK_INTERVAL_MS: '50' } });
    const inspector = await inspect(services);
    await inspector.alive(/./, 3);
    const client = await connect(services.stream, { token: await services.token() });
    const killing = inspector.kill(/./);
    expect(killing.count).to.equal(3);
    await completed(services, await submit(services, 20));
    await killing.dead;
    await tickAfter(client, Date.now());
    for (let death = 0; death < 3; death++) {
      await inspector.alive(TICKER, 1);
      await inspector.kill(TICKER).dead;
    }
    await tickAfter(client, Date.now());
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
  });

  it('of a client: no other client notices', async () => {
    const services = await startServices({ env: { TICK_INTERVAL_MS: '50' } });
    const token = await services.token();
    const survivor = await connect(services.stream, { token });
    const victims = await Promise.all(Array.from({ length: 12 }, () => connect(services.stream, { token })));
    for (const [index, { socket }] of victims.entries()) {
      await tick(survivor);
      // A TCP reset, a FIN without a close frame, and a FIN in the middle of a frame.
      const { _socket: raw } = socket as unknown as { _socket: import('node:net').Socket };
      if (index % 3 === 0) raw.resetAndDestroy();
      else if (index % 3 === 1) raw.destroy();
      else raw.end(Buffer.from([0x81, 0xfe, 0x00]));
    }
    await Promise.all(victims.map(({ closed }) => closed));
    await tickAfter(survivor, Date.now());
    expect(services.lines.filter(({ level }) => level >= 40)).to.deep.equal([]);
  });
});

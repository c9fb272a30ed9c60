import { expect } from 'chai';
import { inspect, inspectable } from '../support/inspector.ts';
import { post, type RunningServices, request, startServices } from '../support/program.ts';
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

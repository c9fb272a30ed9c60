import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { type RunningServices, type StartOptions, start } from '../main/embed.ts';
import { afterTest, temporaryFolder } from './support/cleanup.ts';
import { openDescriptors, threadCount } from './support/proc.ts';
import { post, request, untilTask } from './support/program.ts';
import { serve } from './support/server.ts';
import { until } from './support/until.ts';

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'uncaughtException', 'unhandledRejection', 'disconnect'];
const listeners = () => SIGNALS.map((event) => process.listenerCount(event));

/** Settings on free ports, with an own data folder unless one is given. */
async function settings(own: StartOptions['settings'] = {}): Promise<NonNullable<StartOptions['settings']>> {
  const DATA_DIR = own.DATA_DIR ?? (await temporaryFolder());
  return { HOST: '127.0.0.1', TICKER_PORT: 0, TASKS_PORT: 0, ADMIN_PORT: 0, LOG_LEVEL: 'silent', DATA_DIR, ...own };
}

/** Starts services that are stopped after the test. */
async function embed(own?: StartOptions['settings']): Promise<RunningServices> {
  const services = await start({ settings: await settings(own) });
  afterTest(() => services.stop());
  return services;
}

const tasksAt = ({ ports }: RunningServices) => `http://127.0.0.1:${ports.tasks}/tasks`;

/** Submits a task and waits until its row is stored. */
async function complete(services: RunningServices): Promise<void> {
  const { status, body } = await post(tasksAt(services), { action: 'uppercase', data: { text: 'hello' } });
  expect(status).to.equal(202);
  const { result } = await untilTask(tasksAt(services).replace('/tasks', ''), body.id);
  expect(JSON.parse(result)).to.deep.equal({ output: 'HELLO' });
}

const failure = (options: StartOptions) =>
  start(options).then(
    () => undefined,
    (error: Error) => error,
  );

describe('embedded services', () => {
  it('serve on the returned ports, and stop with the number of unfinished tasks', async () => {
    const services = await embed();
    const { ticker, admin } = services.ports;
    expect((await post(`http://127.0.0.1:${ticker}/auth/token`, {})).status).to.equal(400);
    expect((await request(`http://127.0.0.1:${admin}/healthz`)).status).to.equal(200);
    await complete(services);
    const stopped = services.stop();
    expect(services.stop()).to.equal(stopped);
    expect(await stopped).to.include({ unfinished: 0 });
    expect(await request(tasksAt(services)).catch(() => 'refused')).to.equal('refused');
  });

  it('have no admin listener if its port is off', async () => {
    expect((await embed({ ADMIN_PORT: 'off' })).ports.admin).to.equal(undefined);
  });

  it('leave no event listener, descriptor or thread behind', async () => {
    // The first start loads modules and starts libuv's threads.
    await (await embed()).stop();
    const before = {
      listeners: listeners(),
      descriptors: openDescriptors(process.pid),
      threads: threadCount(process.pid),
    };
    const services = await embed();
    expect(listeners()).to.deep.equal(before.listeners);
    await complete(services);
    await services.stop();
    expect(listeners()).to.deep.equal(before.listeners);
    await until(() => openDescriptors(process.pid) <= before.descriptors);
    await until(() => threadCount(process.pid) <= before.threads);
  });

  it('do not disturb other services in the same process', async () => {
    const [first, second] = await Promise.all([embed(), embed()]);
    await Promise.all([complete(first), complete(second)]);
    await first.stop();
    await complete(second);
    expect((await request(tasksAt(second))).body.count).to.equal(2);
    const metrics = `http://127.0.0.1:${second.ports.admin}/metrics`;
    expect((await request(metrics)).body).to.match(/^nodejs_version_info/m);
  });

  it('do not read the environment variables of the process', async () => {
    process.env.TASK_PREFETCH = 'many';
    afterTest(() => delete process.env.TASK_PREFETCH);
    await complete(await embed());
    expect(await failure({ settings: { ...process.env } })).to.have.property(
      'message',
      'TASK_PREFETCH must be a whole number from 1 to 10000, got "many"',
    );
  });

  it('run the handlers module in the option, not the one in the settings', async () => {
    const file = join(await temporaryFolder(), 'handlers.mjs');
    await writeFile(file, "export default { uppercase: () => 'HELLO', words: ({ text }) => text.split(' ').length };");
    const options = { handlers: pathToFileURL(file), settings: await settings({ TASK_HANDLERS: './none.mjs' }) };
    const services = await start(options);
    afterTest(() => services.stop());
    expect((await request(`http://127.0.0.1:${services.ports.tasks}/actions`)).body.actions).to.deep.include({
      name: 'words',
    });
    await complete(services);
  });

  it('take prices that JavaScript formats with an exponent, and refuse smaller ones', async () => {
    const symbols = { 'SHIB-USD': 8.1e-7, 'PEPE-USD': 1e-8 };
    const services = await start({ symbols, settings: await settings() });
    afterTest(() => services.stop());
    const tooSmall = { 1e-9: '0.000000001', 1.23e-8: '0.0000000123', 1e-300: '1e-300' };
    for (const [price, text] of Object.entries(tooSmall)) {
      const error = await failure({ symbols: { 'BTC-USD': Number(price) }, settings: await settings() });
      expect(error?.message).to.match(/^TICKER_SYMBOLS must be /);
      expect(error?.message.endsWith(`got "BTC-USD:${text}"`)).to.equal(true);
    }
  });

  it('reject with one line if they cannot start, and leave nothing behind', async () => {
    const DATA_DIR = await temporaryFolder();
    const running = await embed({ DATA_DIR });
    const { port } = (await serve(() => {})).listener;
    const faults: [Omit<StartOptions, 'settings'>, StartOptions['settings'], RegExp][] = [
      [{ handlers: './none.mjs' }, {}, /^the handlers module \.\/none\.mjs cannot be used: /],
      // A program in JavaScript is not stopped by the types.
      [{ handlers: { words: () => 1 } as never }, {}, /^handlers must be a path, a file URL or a package name, /],
      [{ setings: {} } as never, {}, /^unknown option "setings": did you mean settings\?$/],
      [{}, { TASK_CONCURENCY: 3 }, /^TASK_CONCURENCY must be unset: set TASK_CONCURRENCY instead, got a value$/],
      [{ symbols: { btc: 1 } }, {}, /^TICKER_SYMBOLS must be .*got "btc:1"$/],
      [{ symbols: { 'BTC-USD': Number.NaN } }, {}, /^TICKER_SYMBOLS must be /],
      [{ priceSource: './none.mjs' }, {}, /^the price source \.\/none\.mjs cannot be used: /],
      [{}, { TASKS_PORT: port }, new RegExp(`^port ${port} is in use: .*TASKS_PORT`)],
      [{}, { ADMIN_PORT: port }, new RegExp(`^port ${port} is in use: .*ADMIN_PORT`)],
      [{}, { DATA_DIR }, /^\S+ is in use: .*DATA_DIR/],
      [{}, { TICKER_PORT: -1 }, /^TICKER_PORT must be a whole number/],
    ];
    for (const [options, own, message] of faults) {
      const error = await failure({ ...options, settings: await settings(own) });
      expect(error?.message).to.match(message).and.to.not.include('\n');
    }
    await complete(running);
  });
});

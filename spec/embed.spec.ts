import { writeFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { mock } from 'node:test';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import { lockDataFolder } from '../db/sqlite/data-folder.ts';
import { SqliteStore } from '../db/sqlite/store.ts';
import { type RunningServices, type StartOptions, start } from '../main/embed.ts';
import { Ticker } from '../main/ticker/ticker.ts';
import { ServiceError } from '../www/client/errors.ts';
import { errorOf } from './store/stage.ts';
import { afterTest, temporaryFile, temporaryFolder } from './support/cleanup.ts';
import { runOn } from './support/migrated-folder.ts';
import { openDescriptors, threadCount } from './support/proc.ts';
import { post, request, untilTask } from './support/program.ts';
import { until } from './support/until.ts';

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP', 'SIGUSR1', 'uncaughtException', 'unhandledRejection', 'disconnect'];
const OFF = { TICKER_PORT: 'off', TASKS_PORT: 'off', ADMIN_PORT: 'off' };
const timers = () => process.getActiveResourcesInfo().filter((kind) => kind === 'Timeout').length;
const listeners = () => SIGNALS.map((event) => process.listenerCount(event));

async function settings(own: StartOptions['settings'] = {}): Promise<NonNullable<StartOptions['settings']>> {
  const DATA_DIR = own.DATA_DIR ?? (await temporaryFolder());
  return { HOST: '127.0.0.1', TICKER_PORT: 0, TASKS_PORT: 0, ADMIN_PORT: 0, LOG_LEVEL: 'silent', DATA_DIR, ...own };
}

async function embed(own?: StartOptions['settings']): Promise<RunningServices> {
  const services = await start({ settings: await settings(own) });
  afterTest(() => services.stop());
  return services;
}

const tasksAt = ({ ports }: RunningServices) => `http://127.0.0.1:${ports.tasks}/tasks`;

async function complete(services: RunningServices): Promise<void> {
  const { body } = await post(tasksAt(services), { action: 'uppercase', data: { text: 'hello' } });
  const { result } = await untilTask(tasksAt(services).replace('/tasks', ''), body.id);
  expect(JSON.parse(result)).to.deep.equal({ output: 'HELLO' });
}

describe('embedded services', () => {
  describe('without listeners', () => {
    it('process tasks of the program by its handlers, not those of the settings, and let it see progress and results, and manage the queue', async () => {
      const code = `import { existsSync } from 'node:fs';
        import { setTimeout } from 'node:timers/promises';
        async function half({ text }, { progress }) {
          progress(0.5, text);
          while (!existsSync(import.meta.dirname + '/seen')) await setTimeout(5);
          return text.length;
        }
        export default { half, broken: { limits: { concurrency: 3 }, handler() { throw new Error('out of ink'); } } };`;
      const file = await temporaryFile('handlers.mjs', code);
      const services = await start<{ half: (data: { text: string }) => number; broken: () => void }>({
        handlers: pathToFileURL(file),
        settings: await settings({ ...OFF, TASKS_REQUIRE_TOKEN: true, TASK_HANDLERS: './none.mjs' }),
      });
      afterTest(() => services.stop());
      expect(services.ports).to.deep.equal({ ticker: undefined, tasks: undefined, admin: undefined });
      const { tasks } = services;
      expect((await tasks.limits.list())[0]).to.include({ action: 'broken', concurrency: 3, source: 'module' });
      await tasks.queue.pause();
      const submit = () => tasks.submit('half', { text: 'ink' }, { priority: 1, idempotency_key: 'one' });
      const task = await submit();
      expect((await submit()).id).to.equal(task.id);
      const progress: unknown[] = [];
      task.on('progress', (value) => progress.push(value));
      expect(await task.get()).to.include({ status: 'queued', priority: 1 });
      await until(() => tasks.status.state === 'live');
      await tasks.queue.resume();
      await until(() => progress.length > 0);
      await writeFile(join(dirname(file), 'seen'), '');
      expect((await task.result()).output).to.equal(3);
      expect(progress[0]).to.deep.equal({ attempt: 1, fraction: 0.5, note: 'ink' });
      expect((await tasks.list()).map(({ id }) => id)).to.deep.equal([task.id]);
      const scheduled = await tasks.submit('half', { text: 'ink' }, { delay: 3600 });
      expect(await scheduled.cancel()).to.equal(true);
      await services.stop();
      expect(await tasks.list().catch(({ name }) => name)).to.equal('AbortError');
    });

    it('list results that are too large for one piece, send no request whose signal is aborted, and refuse what HTTP refuses', async () => {
      const { tasks } = await embed({ ...OFF, TASK_UNKNOWN_ACTIONS: 'reject', QUEUE_MAX_LENGTH: 2 });
      const signal = AbortSignal.abort();
      for (const request of [tasks.submit('sum', {}, { signal }), tasks.task('none').get({ signal })])
        expect(await request.catch(({ name }) => name)).to.equal('AbortError');
      const long = { text: 'x'.repeat(300_000) };
      for (const task of [await tasks.submit('uppercase', long), await tasks.submit('uppercase', long)])
        await task.result();
      expect((await tasks.list()).map(({ result }) => result?.length)).to.deep.equal([300_013, 300_013]);
      expect((await tasks.queue.status()).accepted).to.equal(2);
      const misspelt = await errorOf(() => tasks.submit('uppercase', {}, { dealy: 1 } as never));
      expect(misspelt).to.be.instanceOf(ServiceError);
      expect(misspelt).to.include({ status: 400, path: '/dealy', message: 'unknown option' });
      const unknown = await errorOf(() => tasks.submit('uppercas', {}));
      expect(unknown).to.deep.include({ body: { error: 'unknown action', nearest: ['uppercase'] } });
      expect(await errorOf(() => tasks.task('none').get())).to.include({ status: 404, message: 'task not found' });
      await tasks.queue.pause();
      for (let task = 0; task < 2; task++) await tasks.submit('uppercase', {});
      const full = () => tasks.batch([{ action: 'sum', data: {} }], { signal: AbortSignal.timeout(50) });
      expect(await errorOf(full)).to.have.property('name', 'TimeoutError');
    });

    it('tick for the chosen symbols, with a history, and end all reading when they stop', async () => {
      const { mock: follows } = mock.method(Ticker.prototype, 'follow');
      const { ticker, stop } = await embed({ ...OFF, TICK_INTERVAL_MS: 50 });
      const abort = new AbortController();
      const prices = ticker.prices({ symbols: ['ETH-USD'], signal: abort.signal });
      for (let tick = 0; tick < 3; tick++)
        expect((await prices.next()).value?.map(({ symbol }) => symbol)).to.deep.equal(['ETH-USD']);
      const next = errorOf(() => prices.next());
      abort.abort(new Error('enough'));
      expect(await Promise.race([next, new Promise(setImmediate)])).to.include({ message: 'enough' });
      expect((await ticker.history({ seconds: 60 })).interval_ms).to.equal(50);
      expect(await ticker.history({ seconds: 0 }).catch(({ status }) => status)).to.equal(400);
      const unknown = await errorOf(() => ticker.prices({ symbols: ['DOGE-USD'] }).next());
      expect(unknown.message).to.equal('unknown symbol DOGE-USD: the service has BTC-USD, ETH-USD, SOL-USD');
      const last = ticker.prices();
      await last.next();
      // A reader without ticks, which only the stop can wake.
      follows.mockImplementationOnce(() => () => false);
      const unticked = ticker.prices({ signal: new AbortController().signal }).next();
      const end = Array.fromAsync(last);
      await prices.return();
      await stop();
      await end;
      expect(await Promise.race([unticked, new Promise(setImmediate)])).to.include({ done: true });
      const wereFollowing = follows.calls.map(({ result }) => (result as () => unknown)());
      expect(wereFollowing).to.deep.equal([false, false, false]);
    });
  });

  it('give a page a token for one task, and keep the tokens of their users and the history over a restart', async () => {
    const limits = { TASKS_REQUIRE_TOKEN: true, TOKENS_PER_KEY: 1 };
    const own = await settings({ ...OFF, TASKS_PORT: 0, QUEUE_DRIVER: 'sqlite', ...limits });
    const first = await embed(own);
    const { id } = await first.tasks.submit('sum', {});
    const visitor = await first.tasks.task(id).token({ expiresIn: 600 });
    const alice = await first.tokens.issue('alice');
    const [{ api_key } = {}] = runOn(`${own.DATA_DIR}`, 'SELECT api_key FROM api_keys', 'auth.db');
    const demo = (await post(`${tasksAt(first)}/../auth/token`, { api_key })).body;
    const signedIn = { method: 'POST', headers: { Authorization: `Bearer ${demo.token}` }, body: '{}' };
    const guest = (await request(`${tasksAt(first)}/${id}/token`, signedIn)).body;
    expect([visitor.expires_in, alice.expires_in]).to.deep.equal([600, 3600]);
    const { close } = SqliteStore.prototype;
    const { mock: saved } = mock.method(SqliteStore.prototype, 'close', function (this: SqliteStore) {
      expect(() => lockDataFolder(`${own.DATA_DIR}`)).to.throw('is in use');
      return close.call(this);
    });
    await first.stop();
    expect(saved.callCount()).to.be.above(0);
    const second = await embed(own);
    const get = (path: string, { token }: { token: string }) =>
      request(tasksAt(second) + path, { headers: { Authorization: `Bearer ${token}` } });
    for (const token of [visitor, guest]) expect((await get(`/${id}`, token)).status).to.equal(200);
    expect((await get('/other', visitor)).status).to.equal(404);
    for (const token of [alice, demo]) expect((await get('', token)).status).to.equal(200);
    expect((await get('/../queue/history', alice)).body.starts, 'its history').to.have.length(2);
    await second.tokens.issue('alice');
    expect((await get('', alice)).status, 'beyond TOKENS_PER_KEY').to.equal(401);
    const refusal = (...user: [string, string?]) => second.tokens.issue(...user).catch(({ message }) => message);
    expect(await refusal('alice', 'viewr')).to.equal('the role viewr has no policy');
    for (const name of ['', 'a'.repeat(129), undefined as never])
      expect(await refusal(name)).to.equal('the user id must be a text of 1 to 128 characters in one line');
  });

  it('serve on the returned ports, stop with the number of unfinished tasks, and leave no event listener, timer, descriptor or thread behind', async () => {
    const slowly = { SHUTDOWN_TIMEOUT_MS: 600_000 };
    // The first start loads modules and starts libuv's threads. A shutdown timer that is left would be counted.
    const first = await embed(slowly);
    const { ticker, admin } = first.ports;
    expect((await post(`http://127.0.0.1:${ticker}/auth/token`, {})).status).to.equal(400);
    expect((await request(`http://127.0.0.1:${admin}/healthz`)).status).to.equal(200);
    await complete(first);
    const stopped = first.stop();
    expect(first.stop()).to.equal(stopped);
    expect(await stopped).to.include({ unfinished: 0 });
    expect(await request(tasksAt(first)).catch(() => 'refused')).to.equal('refused');
    const [before, descriptors, threads] = [listeners(), openDescriptors(process.pid), threadCount(process.pid)];
    const timersBefore = timers();
    const services = await embed(slowly);
    expect(listeners()).to.deep.equal(before);
    await complete(services);
    await services.stop();
    expect(listeners()).to.deep.equal(before);
    await until(() => timers() <= timersBefore);
    await until(() => openDescriptors(process.pid) <= descriptors && threadCount(process.pid) <= threads);
  });

  it('neither disturb other services in the same process nor read its environment variables, and have metrics while the queue cannot be counted', async () => {
    process.env.TASK_PREFETCH = 'many';
    afterTest(() => delete process.env.TASK_PREFETCH);
    const [first, second] = await Promise.all([embed(), embed()]);
    await Promise.all([complete(first), complete(second)]);
    await first.stop();
    await complete(second);
    expect((await request(tasksAt(second))).body.count).to.equal(2);
    mock.method(SqliteStore.prototype, 'counts', () => Promise.reject(new Error('the database is unavailable')));
    expect((await request(`http://127.0.0.1:${second.ports.admin}/metrics`)).body).to.match(/^nodejs_version_info/m);
  });

  it('take prices that JavaScript formats with an exponent, and reject with one line if they cannot start, and leave nothing behind', async () => {
    const DATA_DIR = await temporaryFolder();
    const symbols = { 'SHIB-USD': 8.1e-7, 'PEPE-USD': 1e-8 };
    const running = await start({ symbols, settings: await settings({ DATA_DIR }) });
    afterTest(() => running.stop());
    const faults: (readonly [Omit<StartOptions, 'settings'>, RegExp, StartOptions['settings']?])[] = [
      [{ handlers: './none.mjs' }, /^the handlers module \.\/none\.mjs cannot be used: /],
      // A program in JavaScript is not stopped by the types.
      [{ handlers: { words: () => 1 } as never }, /^handlers must be a path, a file URL or a package name, /],
      [{ setings: {} } as never, /^unknown option "setings": did you mean settings\?$/],
      [{ symbols: {} }, /^TICKER_SYMBOLS must be /],
      [{ symbols: { btc: 1 } }, /^TICKER_SYMBOLS must be .*got "btc:1"$/],
      ...Object.entries({ NaN: 'NaN', '1e-9': '0.000000001', '1.23e-8': '0.0000000123', '1e-300': '0' }).map(
        ([price, text]) =>
          [{ symbols: { A: Number(price) } }, new RegExp(`TICKER_SYMBOLS .*got "A:${text}"$`)] as const,
      ),
      [{}, /^\S+ is in use: .*DATA_DIR/, { DATA_DIR }],
    ];
    for (const [options, message, own] of faults) {
      const refused = { ...options, settings: await settings(own) };
      const error = await errorOf(() => start(refused));
      expect(error.message).to.match(message).and.not.include('\n');
    }
    await complete(running);
  });
});

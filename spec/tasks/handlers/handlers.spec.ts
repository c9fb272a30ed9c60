import { createServer } from 'node:http';
import { mock } from 'node:test';
import { promisify } from 'node:util';
import { expect } from 'chai';
import type { Outcome } from '../../../main/tasks/pool/run.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { listenLocally } from '../../support/free-port.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { until } from '../../support/until.ts';
import { failed, returned, startHandlers } from './handling.ts';

const patient = { TASK_CANCEL_GRACE_MS: '60000' };

/** Code of handlers that report progress once they run. */
const interruptible = `
  ok: () => 'ok',
  async heed(_, { signal, progress }) { progress(0); await aborted(signal); throw new PermanentError('told to stop'); },
  async 'nack, then return'(_, { signal, progress, nack }) {
    progress(0); await aborted(signal); nack(); return 'returned';
  },
  async 'read the signal after the cancellation'(_, task) {
    const cancellations = new BroadcastChannel(workerData.abortChannel);
    const isCancelled = new Promise((resolve) => { cancellations.onmessage = resolve; });
    task.progress(0); await isCancelled; cancellations.close();
    // The cancellation may reach the task a moment later.
    for (let turn = 0; turn < 50; turn++) await pause(1);
    if (task.signal.aborted) throw task.signal.reason;
  },
  async finish(_, { signal, progress }) { progress(0); await aborted(signal); return signal.reason.message; },
  'is aborted': (_, { signal }) => signal.aborted,
  ignore: (_, { progress }) => { progress(0); return new Promise(() => {}); },
  block(_, { progress }) { progress(0); for (;;); },
  late: { timeoutMs: 30, async handler(_, { signal, progress }) {
    await aborted(signal); progress(0); await pause(50); throw signal.reason;
  } },
  async 'shut down'() {
    new BroadcastChannel(workerData.abortChannel).postMessage({ run: 'all', reason: 'shutdown' });
    await pause(50);
  },
`;

const handlers = `
  ${interruptible}
  describe: ({ a }, { id, action, attempt, createdAt, traceparent }) => ({ a, id, action, attempt, createdAt, traceparent }),
  later: async ({ a }) => { await new Promise(setImmediate); return a; },
  nothing() {},
  uppercase: () => 'own',
  process: () => [process.pid, Object.keys(process.env).filter((name) => name.startsWith('PISCINA'))],
  fail() { throw new Error('it failed'); },
  permanent() { throw new PermanentError('it will never work'); },
  'own class'() { throw Object.assign(new Error('no copy of the class'), { name: 'PermanentError' }); },
  'retry later'() { throw new RetryAfter(1500); },
  'retry much later'() { throw new RetryAfter(1e12, 'next year'); },
  'retry never'() { throw new RetryAfter(NaN, 'when?'); },
  'retry before'() { throw new RetryAfter(-1, 'before?'); },
  ack(_, { ack, nack }) { ack(); nack(); throw new Error('too late'); },
  nack(_, { nack }) { nack(); return 'returned'; },
  async 'ack, then wait'(_, { ack, signal }) { ack(); await aborted(signal); },
  'keep ack'(_, task) { globalThis.settleLate = task.ack; throw new Error('it failed'); },
  'ack in its error'(_, { ack }) {
    throw Object.defineProperty(new Error(), 'message', { get() { ack(); return 'it failed'; } });
  },
  'nack in its output': (_, { nack }) => ({ toJSON: () => String(nack()) }),
  async 'ack late'() { settleLate(); await pause(0); },
  async work(_, { progress, signal }) {
    progress(-1, 'begin');
    for (const wrong of [NaN, Infinity, '0.5', null, undefined, {}]) progress(wrong);
    const { length } = process.getActiveResourcesInfo();
    for (let step = 1; step < 100; step++) progress(step / 100);
    const timers = process.getActiveResourcesInfo().length - length;
    await pause(120); progress(2, timers > 1 ? timers + ' timers' : 'x'.repeat(1e6)); await aborted(signal);
  },
  async log(_, { log }) {
    log.info('message first', { a: 1n });
    log.warn({ err: new TypeError('broken'), level: 0, time: 0, msg: 'other' }, 'fields first');
    log.debug({ task: 'another' });
    console.error('of %s', 'console');
    await new Promise((written) => process.stdout.write('directly\\n', written));
    process.emitWarning('it is outdated', 'DeprecationWarning');
    await new Promise(setImmediate);
  },
  flood(_, { log }) { for (let line = 0; line < 100; line++) log.info('flood'); },
  leave(_, task) { globalThis.left = new WeakRef(task); },
  'is left'() {
    process.getBuiltinModule('v8').setFlagsFromString('--expose-gc');
    process.getBuiltinModule('vm').runInNewContext('gc')();
    return left.deref() !== undefined;
  },
`;

type Started = Awaited<ReturnType<typeof startHandlers>>;

async function runAndCancel({ run, reports, cancel }: Started, action: string) {
  reports.length = 0;
  const outcome = run(action);
  await until(() => reports.length > 0);
  expect(cancel()).to.equal(false);
  return outcome;
}

for (const isolation of ['thread', 'process'])
  describe(`a handler in a ${isolation} of its pool`, () => {
    const shared = onceForSuite(() => startHandlers(handlers, { ...patient, TASK_ISOLATION: isolation }));

    async function outputOf(action: string, data?: object, about = {}) {
      expect(await shared().run(action, data, about), action).to.deep.equal(returned);
      return shared().output();
    }

    it('receives data and task, and its output is stored, null if it returns nothing, and its thread keeps neither', async () => {
      const { id, ...described } = await outputOf('describe', { a: [1] }, { attempt: 3, traceparent: 'trace' });
      expect(id).to.be.a('string');
      expect(described).to.deep.equal({ a: [1], action: 'describe', attempt: 3, createdAt: 5, traceparent: 'trace' });
      expect([await outputOf('later', { a: 'x' }), await outputOf('nothing')]).to.deep.equal(['x', null]);
      expect([await outputOf('leave'), await outputOf('is left')]).to.deep.equal([null, false]);
      const [pid, settings] = await outputOf('process');
      expect([pid === process.pid, settings]).to.deep.equal([isolation === 'thread', []]);
    });

    it('replaces a built-in action of the same name, and leaves the others; an action without a handler fails', async () => {
      expect(await outputOf('uppercase', { text: 'a' })).to.equal('own');
      expect(await outputOf('sum', { numbers: [1, 2] })).to.equal(3);
      for (const name of ['unknown', 'constructor', '__proto__', 'toString', 'hasOwnProperty'])
        expect(await shared().run(name), name).to.deep.equal(failed(`no handler has the action ${name}`));
    });

    it('decides by the name of its error whether and when the task is retried', async () => {
      const later = failed('the handler asked for a retry after 1500 ms');
      for (const [action, outcome] of Object.entries({
        fail: failed('it failed'),
        permanent: failed('it will never work', true),
        'own class': failed('no copy of the class', true),
        'retry later': { ...later, retryAfterMs: 1500 },
        'retry much later': { ...failed('next year'), retryAfterMs: 86_400_000 },
        'retry never': failed('when?'),
        'retry before': failed('before?'),
      }))
        expect(await shared().run(action), action).to.deep.equal(outcome);
    });

    it('may settle its task while it runs, at once, once, and not after it has ended', async () => {
      const { run, told, cancel } = shared();
      for (const [action, outcome, ...events] of [
        ['ack', failed('too late'), 'started', 'ack', 'ended'],
        ['nack', returned, 'started', 'nack', 'ended'],
        ['ack, then wait', returned, 'started', 'ack', 'ended'],
        ['keep ack', failed('it failed'), 'started', 'ended'],
        ['ack in its error', failed('it failed'), 'started', 'ended'],
        ['nack in its output', returned, 'started', 'ended'],
        ['ack late', returned, 'started', 'ended'],
      ] as const) {
        told.length = 0;
        const running = run(action);
        if (action === 'ack, then wait') {
          await until(() => told.at(-1)?.endsWith('ack') === true);
          cancel();
        }
        expect(await running, action).to.deep.equal(outcome);
        expect(told.map((event) => event.split(' ')[1])).to.deep.equal(events);
      }
    });

    it('writes log lines with task and action, also by the console and by warnings of Node.js, at most 100 a second with all others in its thread', async () => {
      const { lines, logged } = shared();
      lines.length = 0;
      await outputOf('log');
      const warning = await logged(({ msg }) => msg.includes('it is outdated'));
      expect(warning).to.include({ level: 40, msg: 'DeprecationWarning: it is outdated' });
      const [first, second, third, console, direct] = lines;
      const own = { task: first?.task, action: 'log' };
      expect(first).to.include({ ...own, level: 30, msg: 'message first', a: '1' });
      expect(second).to.include({ ...own, level: 40, msg: 'fields first' });
      expect(second?.err).to.include({ type: 'TypeError', message: 'broken' });
      expect(third).to.include({ ...own, level: 20 });
      expect(console).to.include({ level: 50, msg: 'of console' });
      expect(direct).to.include({ level: 30, msg: 'directly' });
      const startedAt = performance.now();
      for (let task = 0; task < 20; task++) await outputOf('flood');
      const most = (performance.now() - startedAt) / 10 + 200;
      expect(lines.filter(({ msg }) => msg === 'flood')).to.have.length.of.at.most(most);
    });

    it('reports progress at most ten times a second, by a single timer, and the last value in the end', async () => {
      const { run, cancel, reports } = shared();
      reports.length = 0;
      const outcome = run('work');
      await until(() => reports.length === 3);
      cancel();
      expect(await outcome).to.deep.equal(returned);
      const values = reports.map(({ fraction, note }) => `${fraction} ${note}`);
      expect(values).to.deep.equal(['0 begin', '0.99 undefined', `1 ${'x'.repeat(200)}`]);
    });

    it('does not report progress in a retry sooner than 100 ms after the previous attempt', async () => {
      const startedAt = performance.now();
      const { run, cancel, reports } = shared();
      reports.length = 0;
      const outcome = run('heed', {}, { attempt: 2 });
      await until(() => reports.length > 0);
      // A timer can fire almost a millisecond early.
      expect(performance.now() - startedAt).to.be.above(99);
      cancel();
      await outcome;
    });

    it('whose task is cancelled completes it by returning, or ends as cancelled in its thread', async () => {
      shared().told.length = 0;
      for (const action of ['heed', 'nack, then return', 'read the signal after the cancellation']) {
        expect(await runAndCancel(shared(), action), action).to.deep.equal({ ended: 'cancelled' });
        expect(await outputOf('is aborted')).to.equal(false);
      }
      expect(await runAndCancel(shared(), 'finish')).to.deep.equal(returned);
      expect(shared().output()).to.equal('the task was aborted: cancelled');
      expect(shared().told.join()).to.not.include('nack');
      // The thread may receive the abort before the task. The first abort is never sent, which has the same effect.
      mock.method(BroadcastChannel.prototype, 'postMessage', () => {}, { times: 1 });
      for (const action of ['finish', ...Array(20).fill('heed')]) {
        const outcome = shared().run(action);
        shared().cancel();
        expect(await outcome).to.deep.equal(action === 'finish' ? returned : { ended: 'cancelled' });
      }
    });
  });

describe('a handler of a handlers module', () => {
  it('whose task is cancelled ends with its thread if it does not end itself, or even blocks, however often it is cancelled', async () => {
    for (const action of ['ignore', 'block']) {
      const clock = new ManualClock();
      const started = await startHandlers(interruptible, { TASK_CANCEL_GRACE_MS: '20' }, clock);
      const before = started.run('ok');
      const outcome = runAndCancel(started, action);
      await until(() => started.reports.length > 0);
      for (let ms = 0; ms < 20; ms++) {
        started.cancel();
        clock.advance(1);
      }
      expect(await outcome).to.deep.equal({ ended: 'cancelled' });
      expect([await before, await started.run('ok')]).to.deep.equal([returned, returned]);
    }
  });

  it('has its signal aborted at a shutdown, even if it starts later, and its task is released unless it returns or its time was up', async () => {
    for (const [action, ended] of Object.entries({ heed: 'released', finish: 'returned', late: 'raised' })) {
      const { run, pool, reports } = await startHandlers(interruptible, patient);
      const outcome = run(action);
      await until(() => reports.length > 0);
      await pool.stop(new Promise(() => {}));
      expect((await outcome).ended, action).to.equal(ended);
    }
    const { run, output } = await startHandlers(interruptible);
    for (const action of ['shut down', 'is aborted']) expect(await run(action)).to.deep.equal(returned);
    expect(output()).to.equal(true);
  });

  it('does not use a connection that was closed while its thread was idle', async () => {
    const server = createServer((request, response) => void request.resume().on('end', () => response.end('ok')));
    const port = await listenLocally(server);
    const { run, output } = await startHandlers(`
      fetch: async () => {
        const [http, events] = ['http', 'events'].map(process.getBuiltinModule);
        const request = http.request({ port: ${port}, method: 'POST' }).end('x');
        const [response] = await events.once(request, 'response');
        await response.toArray();
      },
      idle: () => Object.keys(process.getBuiltinModule('http').globalAgent.freeSockets).length,
    `);
    for (let time = 0; time < 5; time++) {
      expect(await run('fetch')).to.deep.equal(returned);
      expect(await promisify(server.getConnections.bind(server))()).to.equal(1);
      server.closeAllConnections();
      await until(async () => (await run('idle')) === returned && output() === 0);
    }
  });

  it('has its signal aborted at its own time limit, also a longer one than others have, and may end well or badly', async () => {
    const { run, output } = await startHandlers(
      `heed: { timeoutMs: 30, async handler(_, { signal }) {
        await aborted(signal);
        throw new Error('aborted: ' + signal.reason.name);
      } },
      finish: { timeoutMs: 30, async handler(_, { signal }) { await aborted(signal); return signal.reason.message; } },
      ignore: { timeoutMs: 30, async handler() { await pause(60); throw new Error('its own'); } },
      slow: { timeoutMs: 60000, async handler(_, { signal }) { await pause(100); return signal.aborted; } },`,
      { ...patient, TASK_TIMEOUT_MS: '20' },
    );
    expect(await run('heed')).to.deep.equal(failed('took longer than 30 ms'));
    expect(await run('ignore')).to.deep.equal(failed('its own'));
    expect(await run('finish')).to.deep.equal(returned);
    expect(output()).to.equal('took longer than 30 ms');
    expect([await run('slow'), output()]).to.deep.equal([returned, false]);
  });
});

// The largest output.
const common = "ok: () => 'x'.repeat(1_048_574), wait: () => pause(20),";

/** Runs a handler between two good ones. Asserts that those are completed, and that the pool continues. */
async function runBetween({ run }: Started, action: string): Promise<Outcome> {
  const [before, outcome, after] = await Promise.all([run('ok'), run(action), run('ok')]);
  expect([before, after, await run('ok')]).to.deep.equal([returned, returned, returned]);
  return outcome;
}

const toJson = (why: string) => new RegExp(`^JSON cannot hold the output: ${why}$`);

/** Handlers, with the end of their tasks and its reason. A task that `failed` may be retried. */
const cases: [what: string, end: 'crashed' | 'failed' | 'failed for good', reason: RegExp, handler: string][] = [
  ['never returns', 'crashed', /^took longer than 30 ms$/, '{ timeoutMs: 30, handler: () => new Promise(() => {}) }'],
  ['blocks its thread', 'crashed', /^took longer than 30 ms$/, '{ timeoutMs: 30, handler() { for (;;); } }'],
  ['needs too much memory', 'crashed', /memory limit/, '() => { for (const a = []; ; ) a.push(Array(1e4).fill({})); }'],
  ['calls process.exit', 'failed', /^process.exit\(0\) was called in a task thread$/, '() => process.exit(0)'],
  ['throws null', 'failed', /^null$/, '() => { throw null; }'],
  ['throws a huge message', 'failed for good', /^x{1000}$/, `() => { throw new PermanentError('x'.repeat(1e7)); }`],
  ['returns a circular object', 'failed for good', toJson('Conv.* circ.*'), '() => { const a = {}; return a.a = a; }'],
  ['returns a BigInt', 'failed for good', toJson('.*BigInt.*'), '() => 1n'],
  ['returns a function', 'failed for good', toJson('it is a function'), '() => () => {}'],
  ['returns a toJSON that throws', 'failed for good', toJson('null'), '() => ({ toJSON() { throw null; } })'],
  ['returns too much', 'failed for good', /^the output has more than 1048576 bytes$/, `() => 'ü'.repeat(524_288)`],
];

describe('a handler disturbs no other task', () => {
  const shared = onceForSuite(() => {
    const handlers = cases.map(([action, , , handler]) => `'${action}': ${handler},`);
    return startHandlers(`${common} ${handlers.join('\n')}`, { TASK_MEMORY_MB: '32' });
  });

  for (const [action, end, reason] of cases)
    it(`if it ${action}`, async () => {
      const outcome = await runBetween(shared(), action);
      const expected = end === 'crashed' ? { ended: end } : { ended: 'raised', permanent: end === 'failed for good' };
      expect(outcome).to.include(expected);
      expect(outcome).to.have.property('reason').that.matches(reason);
    });

  for (const [what, bad, message] of [
    ['calls a saved exit', '((exit) => () => { setImmediate(() => exit(1)); })(process.exit)', 'process.exit(1)'],
    ['throws', '() => { setInterval(() => { throw new TypeError("left behind"); }, 1); }', 'left behind'],
    ['rejects', '() => { setImmediate(() => Promise.reject(null)); }', 'null'],
  ] as const) {
    it(`if a timer that it left behind ${what} while other tasks run`, async () => {
      const started = await startHandlers(`bad: ${bad}, ${common}`);
      expect(await runBetween(started, 'bad')).to.deep.equal(returned);
      expect(await started.run('wait')).to.deep.equal(returned);
      const line = await started.logged(({ err }) => String(err).includes(message));
      expect(line).to.include({ level: 50, origin: what === 'rejects' ? 'unhandledRejection' : 'uncaughtException' });
    });
  }

  it('if it leaves a timer behind that blocks its idle thread, and the next task is cancelled', async () => {
    const { run, cancel, told, logged } = await startHandlers(`
      bad() { setImmediate(() => { console.log('blocked'); for (;;); }); },
      ok: () => 'ok',
    `);
    expect(await run('bad')).to.deep.equal(returned);
    await logged(({ msg }) => msg === 'blocked');
    const outcome = run('ok');
    expect(cancel()).to.equal(false);
    expect([await outcome, await run('ok')]).to.deep.equal([{ ended: 'cancelled' }, returned]);
    expect(told).to.deep.equal(['1 started', '1 ended', '2 ended', '3 started', '3 ended']);
  });

  it('if it sends messages of its own to the main thread', async () => {
    const started = await startHandlers(`${common} async bad() {
      const { parentPort } = await import('node:worker_threads');
      const post = (...messages) => messages.forEach((message) => parentPort.postMessage(message));
      post(null, 5, 'text', {}, { logLine: null }, { logLine: { level: 'none', fields: '{' } });
      for (const acknowledged of [null, 'other']) post({ run: 1e9, acknowledged });
      post({ run: 2, progress: null });
    }`);
    expect([await runBetween(started, 'bad'), started.reports]).to.deep.equal([returned, []]);
    const invalid = 'a task thread sent an invalid message';
    await started.logged(({ msg }) => msg === invalid);
    expect(new Set(started.lines.map(({ msg }) => msg))).to.deep.equal(new Set([invalid]));
  });
});

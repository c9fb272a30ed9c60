import { createServer, type Server } from 'node:http';
import { expect } from 'chai';
import { onceForSuite } from '../../support/cleanup.ts';
import { listenLocally } from '../../support/free-port.ts';
import { eventually, until } from '../../support/until.ts';
import { failed, failedForGood, returned, startHandlers } from './handling.ts';

const patient = { TASK_CANCEL_GRACE_MS: '60000' };

/** Code of handlers that report progress once they run. */
const interruptible = `
  ok: () => 'ok',
  heed: (_, { signal, progress }) => new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(signal.reason));
    progress(0);
  }),
  'throw another error': (_, { signal, progress }) => new Promise((_, reject) => {
    signal.addEventListener('abort', () => reject(new PermanentError('it was told to stop')));
    progress(0);
  }),
  'nack, then return': async (_, { signal, progress, nack }) => {
    progress(0);
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
    nack();
    return 'returned';
  },
  'read the signal late': async (_, task) => {
    task.progress(0);
    while (!task.signal.aborted) await new Promise(setImmediate);
    throw task.signal.reason;
  },
  'read the signal after the cancellation': async (_, task) => {
    task.progress(0);
    await new Promise((resolve) => setTimeout(resolve, 500));
    if (task.signal.aborted) throw task.signal.reason;
  },
  finish: (_, { signal, progress }) => new Promise((resolve) => {
    signal.addEventListener('abort', () => resolve(signal.reason.message));
    progress(0);
  }),
  'is aborted': (_, { signal }) => signal.aborted,
  ignore: (_, { progress }) => { progress(0); return new Promise(() => {}); },
  block(_, { progress }) { progress(0); for (;;); },
`;

const handlers = `
  ${interruptible}
  describe: ({ a }, { id, action, attempt, createdAt, traceparent }) => ({ a, id, action, attempt, createdAt, traceparent }),
  later: async ({ a }) => { await new Promise(setImmediate); return a; },
  nothing() {},
  uppercase: () => 'own',
  process: () => process.pid,
  environment: () => Object.keys(process.env).filter((name) => name.startsWith('PISCINA')),

  fail() { throw new Error('it failed'); },
  permanent() { throw new PermanentError('it will never work'); },
  'own class'() { throw Object.assign(new Error('no copy of the class'), { name: 'PermanentError' }); },
  'retry later'() { throw new RetryAfter(1500); },
  'retry much later'() { throw new RetryAfter(1e12, 'next year'); },
  'retry never'() { throw new RetryAfter(NaN, 'when?'); },
  'retry before'() { throw new RetryAfter(-1, 'before?'); },

  ack(_, { ack, nack }) { ack(); nack(); throw new Error('too late'); },
  nack(_, { nack }) { nack(); return 'returned'; },
  async 'ack, then wait'(_, { ack, signal }) {
    ack();
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  },
  'keep ack'(_, task) { globalThis.settleLate = task.ack; throw new Error('it failed'); },
  async 'ack late'() {
    settleLate();
    await new Promise((resolve) => setTimeout(resolve));
  },

  async work(_, { progress, signal }) {
    progress(-1, 'begin');
    for (const wrong of [NaN, Infinity, '0.5', null, undefined, {}]) progress(wrong);
    for (let step = 1; step < 100; step++) progress(step / 100);
    progress(2, 'end');
    await new Promise((resolve) => signal.addEventListener('abort', resolve));
  },
  async log(_, { log }) {
    log.info('message first', { a: 1n });
    log.warn({ err: new TypeError('broken'), level: 0, time: 0, msg: 'other' }, 'fields first');
    log.debug({ task: 'another' });
    console.error('of %s', 'console');
    process.stdout.write('directly\\n');
    process.emitWarning('it is outdated', 'DeprecationWarning');
    await new Promise(setImmediate);
  },
`;

type Started = Awaited<ReturnType<typeof startHandlers>>;

/** Runs a handler, and cancels its task once it has reported progress. Returns the outcome. */
async function runAndCancel({ run, reports, cancel }: Started, action: string) {
  reports.length = 0;
  const outcome = run(action);
  await until(() => reports.length > 0);
  expect(cancel()).to.equal(false);
  return outcome;
}

for (const [place, isolation] of [
  ['a thread', 'thread'],
  ['a process of its own', 'process'],
])
  describe(`a handler in ${place}`, () => {
    const shared = onceForSuite(() => startHandlers(handlers, { ...patient, TASK_ISOLATION: isolation ?? '' }));

    /** Runs a handler that returns. Returns its output. */
    async function outputOf(action: string, data?: object, about = {}) {
      expect(await shared().run(action, data, about), action).to.deep.equal(returned);
      return shared().output();
    }

    /** Runs a handler. Returns the calls of its listener. */
    async function toldDuring(run: () => unknown): Promise<(string | undefined)[]> {
      shared().told.length = 0;
      await run();
      return shared().told.map((event) => event.split(' ')[1]);
    }

    it('receives data and task, and its output is stored, null if it returns nothing', async () => {
      const { id, ...described } = await outputOf('describe', { a: [1] }, { attempt: 3, traceparent: 'trace' });
      expect(id).to.be.a('string');
      expect(described).to.deep.equal({ a: [1], action: 'describe', attempt: 3, createdAt: 5, traceparent: 'trace' });
      expect(await outputOf('later', { a: 'x' })).to.equal('x');
      expect(await outputOf('nothing')).to.equal(null);
    });

    it('replaces a built-in action of the same name, and leaves the others', async () => {
      expect(await outputOf('uppercase', { text: 'a' })).to.equal('own');
      expect(await outputOf('sum', { numbers: [1, 2] })).to.equal(3);
      for (const name of ['unknown', 'constructor', '__proto__', 'toString', 'hasOwnProperty']) {
        expect(await outputOf(name), name).to.equal('processed');
      }
    });

    it('does not see the setting with which the pool starts its threads', async () => {
      expect(await outputOf('environment')).to.deep.equal([]);
      expect((await outputOf('process')) === process.pid).to.equal(isolation === 'thread');
    });

    it('decides by the name of its error whether and when the task is retried', async () => {
      const later = failed('the handler asked for a retry after 1500 ms');
      for (const [action, outcome] of Object.entries({
        fail: failed('it failed'),
        permanent: failedForGood('it will never work'),
        'own class': failedForGood('no copy of the class'),
        'retry later': { ...later, retryAfterMs: 1500 },
        'retry much later': { ...failed('next year'), retryAfterMs: 86_400_000 },
        'retry never': failed('when?'),
        'retry before': failed('before?'),
      })) {
        expect(await shared().run(action), action).to.deep.equal(outcome);
      }
    });

    it('may settle its task while it runs, once', async () => {
      const acked = async () => expect(await shared().run('ack')).to.deep.equal(failed('too late'));
      expect(await toldDuring(acked)).to.deep.equal(['started', 'ack', 'ended']);
      const nacked = async () => expect(await outputOf('nack')).to.equal('returned');
      expect(await toldDuring(nacked)).to.deep.equal(['started', 'nack', 'ended']);
    });

    it('settles its task at once, although it still runs', async () => {
      const { run, told, cancel } = shared();
      const outcome = run('ack, then wait');
      await until(() => told.at(-1)?.endsWith('ack') === true);
      cancel();
      expect(await outcome).to.deep.equal(returned);
    });

    it('cannot settle its task after it has ended', async () => {
      const runs = async () => {
        expect(await shared().run('keep ack')).to.deep.equal(failed('it failed'));
        await outputOf('ack late');
      };
      expect(await toldDuring(runs)).to.deep.equal(['started', 'ended', 'started', 'ended']);
    });

    it('writes log lines with task and action, also by the console and by warnings of Node.js', async () => {
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
    });

    it('reports progress at most ten times a second, and the last value in the end', async () => {
      const { run, cancel, reports } = shared();
      reports.length = 0;
      const outcome = run('work');
      await until(() => reports.length === 2);
      cancel();
      expect(await outcome).to.deep.equal(returned);
      const values = reports.map(({ fraction, note }) => `${fraction} ${note}`);
      expect(values).to.deep.equal(['0 begin', '1 end']);
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

    it('whose task is cancelled may end in any way but by returning, and ends as cancelled in its thread', async () => {
      const ways = ['heed', 'throw another error', 'nack, then return', 'read the signal late'];
      for (const action of [...ways, 'read the signal after the cancellation']) {
        expect(await runAndCancel(shared(), action), action).to.deep.equal({ ended: 'cancelled' });
        expect(await outputOf('is aborted')).to.equal(false);
      }
    });

    it('whose task is cancelled completes it by returning', async () => {
      expect(await runAndCancel(shared(), 'finish')).to.deep.equal(returned);
      expect(shared().output()).to.equal('the task was aborted: cancelled');
    });
  });

describe('a handler of a handlers module', () => {
  for (const action of ['ignore', 'block']) {
    it(`whose task is cancelled ends with its thread if it does not end itself: ${action}`, async () => {
      const started = await startHandlers(interruptible, { TASK_CANCEL_GRACE_MS: '20' });
      const before = started.run('ok');
      expect(await runAndCancel(started, action)).to.deep.equal({ ended: 'cancelled' });
      expect([await before, await started.run('ok')]).to.deep.equal([returned, returned]);
    });
  }

  it('has its signal aborted at a shutdown, and its task is released unless it returns', async () => {
    for (const [action, ended] of Object.entries({ 'read the signal late': 'released', finish: 'returned' })) {
      const { run, pool, reports } = await startHandlers(interruptible);
      const outcome = run(action);
      await until(() => reports.length > 0);
      await pool.stop(new Promise(() => {}));
      expect((await outcome).ended, action).to.equal(ended);
    }
  });

  it('does not use a connection that was closed while its thread was idle', async () => {
    const server = createServer((request, response) => {
      request.resume();
      response.end('ok');
    });
    const port = await listenLocally(server);
    const { run, output } = await startHandlers(`
      fetch: async () => {
        const http = await import('node:http');
        const { promise, resolve, reject } = Promise.withResolvers();
        const request = http.request({ port: ${port}, method: 'POST' }, (response) => response.resume().on('end', resolve));
        request.on('error', reject);
        request.end('x');
        await promise;
      },
      'idle connections': async () => Object.keys((await import('node:http')).globalAgent.freeSockets).length,
    `);
    const idleConnections = async () => {
      await run('idle connections');
      return output();
    };
    for (let time = 0; time < 5; time++) {
      expect(await run('fetch')).to.deep.equal(returned);
      expect(await connections(server)).to.equal(1);
      server.closeAllConnections();
      await eventually(idleConnections, (count) => count === 0);
    }
  });
});

function connections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
}

describe('a handler with a time limit of its own', () => {
  it('has its signal aborted, and may end well or badly', async () => {
    const { run, output } = await startHandlers(
      `heed: { timeoutMs: 30, handler: (_, { signal }) => new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('aborted: ' + signal.reason.name)));
      }) },
      finish: { timeoutMs: 30, handler: (_, { signal }) => new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve(signal.reason.message));
      }) },`,
      patient,
    );
    expect(await run('heed')).to.deep.equal(failed('took longer than 30 ms'));
    expect(await run('finish')).to.deep.equal(returned);
    expect(output()).to.equal('took longer than 30 ms');
  });

  it('may have a longer one than other tasks', async () => {
    const { run } = await startHandlers(
      `slow: { timeoutMs: 60000, handler: () => new Promise((resolve) => setTimeout(resolve, 100)) }`,
      { TASK_TIMEOUT_MS: '20', TASK_CANCEL_GRACE_MS: '0' },
    );
    expect(await run('slow')).to.deep.equal(returned);
  });
});

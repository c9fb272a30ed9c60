import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { expect } from 'chai';
import { afterTest } from '../../support/cleanup.ts';
import { eventually, until } from '../../support/until.ts';
import { failed, failedForGood, returned, startHandlers } from './handling.ts';

function connections(server: Server): Promise<number> {
  return new Promise((resolve) => server.getConnections((_, count) => resolve(count)));
}

describe('a handler of a handlers module', () => {
  it('gets data and task, and its output is stored', async () => {
    const { run, output } = await startHandlers(`
      describe: ({ a }, { id, action, attempt, createdAt }) => ({ a, id, action, attempt, createdAt }),
      later: async ({ a }) => { await new Promise(setImmediate); return a; },
      nothing() {},
    `);
    expect(await run('describe', { a: [1] }, { attempt: 3 })).to.deep.equal(returned);
    expect(output()).to.deep.equal({ a: [1], id: '1', action: 'describe', attempt: 3, createdAt: 5 });
    await run('later', { a: 'x' });
    expect(output()).to.equal('x');
    await run('nothing');
    expect(output()).to.equal(null);
  });

  it('replaces a built-in action of the same name, and leaves the others', async () => {
    const { run, output } = await startHandlers(`uppercase: () => 'own'`);
    await run('uppercase', { text: 'a' });
    expect(output()).to.equal('own');
    await run('sum', { numbers: [1, 2] });
    expect(output()).to.equal(3);
    for (const name of ['unknown', 'constructor', '__proto__', 'toString', 'hasOwnProperty']) {
      await run(name);
      expect(output(), name).to.equal('processed');
    }
  });

  it('decides by the name of its error whether and when the task is retried', async () => {
    const { run } = await startHandlers(`
      fail() { throw new Error('it failed'); },
      permanent() { throw new PermanentError('it will never work'); },
      'own class'() { throw Object.assign(new Error('no copy of the class'), { name: 'PermanentError' }); },
      later() { throw new RetryAfter(1500); },
      'much later'() { throw new RetryAfter(1e12, 'next year'); },
      never() { throw new RetryAfter(NaN, 'when?'); },
      before() { throw new RetryAfter(-1, 'before?'); },
    `);
    expect(await run('fail')).to.deep.equal(failed('it failed'));
    expect(await run('permanent')).to.deep.equal(failedForGood('it will never work'));
    expect(await run('own class')).to.deep.equal(failedForGood('no copy of the class'));
    const later = failed('the handler asked for a retry after 1500 ms');
    expect(await run('later')).to.deep.equal({ ...later, retryAfterMs: 1500 });
    expect(await run('much later')).to.deep.equal({ ...failed('next year'), retryAfterMs: 86_400_000 });
    expect(await run('never')).to.deep.equal(failed('when?'));
    expect(await run('before')).to.deep.equal(failed('before?'));
  });

  it('may settle its task while it runs', async () => {
    const { run, told, output } = await startHandlers(`
      ack(_, { ack, nack }) { ack(); nack(); throw new Error('too late'); },
      nack(_, { nack }) { nack(); return 'returned'; },
    `);
    expect(await run('ack')).to.deep.equal(failed('too late'));
    expect(await run('nack')).to.deep.equal(returned);
    expect(output()).to.equal('returned');
    expect(told).to.deep.equal(['1 started', '1 ack', '1 ended', '2 started', '2 nack', '2 ended']);
  });

  it('settles its task at once, although it still runs', async () => {
    const { run, told, cancel } = await startHandlers(`
      async ack(_, { ack, signal }) { ack(); await new Promise((resolve) => signal.addEventListener('abort', resolve)); },
    `);
    const outcome = run('ack');
    await until(() => told.length === 2);
    expect(told).to.deep.equal(['1 started', '1 ack']);
    cancel();
    expect(await outcome).to.deep.equal(returned);
  });

  it('cannot settle its task after it has ended', async () => {
    const { run, told } = await startHandlers(`
      raise(_, task) { globalThis.settleLate = task.ack; throw new Error('it failed'); },
      async settle() {
        settleLate();
        await new Promise((resolve) => setTimeout(resolve));
      },
    `);
    expect([await run('raise'), await run('settle')]).to.deep.equal([failed('it failed'), returned]);
    expect(told).to.deep.equal(['1 started', '1 ended', '2 started', '2 ended']);
  });

  it('has a log whose lines carry task and action', async () => {
    const { run, lines, logged } = await startHandlers(`
      log(_, { log }) {
        log.info('message first', { a: 1n });
        log.warn({ err: new TypeError('broken'), level: 0, time: 0, msg: 'other' }, 'fields first');
        log.debug({ task: 'another' });
        console.error('of %s', 'console');
        process.stdout.write('directly\\n');
      },
    `);
    await run('log');
    await logged(({ msg }) => msg === 'directly');
    const own = { task: '1', action: 'log' };
    expect(lines[0]).to.include({ ...own, level: 30, msg: 'message first', a: '1' });
    expect(lines[1]).to.include({ ...own, level: 40, msg: 'fields first' });
    expect(lines[1]?.err).to.include({ type: 'TypeError', message: 'broken' });
    expect(lines[2]).to.include({ ...own, level: 20 });
    expect(lines[3]).to.include({ level: 50, msg: 'of console' });
    expect(lines[4]).to.include({ level: 30 });
  });

  it('has the warnings of Node.js in its log, as warnings', async () => {
    const { run, logged } = await startHandlers(`
      async warn() {
        process.emitWarning('it is outdated', 'DeprecationWarning');
        await new Promise(setImmediate);
      },
    `);
    await run('warn');
    const { level, msg } = await logged((line) => line.msg.includes('it is outdated'));
    expect({ level, msg }).to.deep.equal({ level: 40, msg: 'DeprecationWarning: it is outdated' });
  });

  it('reports progress, at most ten times a second, and the last value in the end', async () => {
    const handlers = `
      async work(_, { progress, signal }) {
        progress(-1, 'begin');
        for (const wrong of [NaN, Infinity, '0.5', null, undefined, {}]) progress(wrong);
        for (let step = 1; step < 100; step++) progress(step / 100);
        progress(2, 'end');
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    `;
    const { run, cancel, reports } = await startHandlers(handlers, { TASK_CANCEL_GRACE_MS: '60000' });
    const outcome = run('work');
    await until(() => reports.length === 2);
    cancel();
    expect(await outcome).to.deep.equal(returned);
    expect(reports).to.deep.equal([
      { id: '1', fraction: 0, note: 'begin' },
      { id: '1', fraction: 1, note: 'end' },
    ]);
  });

  it('does not report progress in a retry sooner than 100 ms after the previous attempt', async () => {
    const handlers = `
      async work(_, { progress, signal }) {
        progress(0.5);
        await new Promise((resolve) => signal.addEventListener('abort', resolve));
      },
    `;
    const { run, cancel, reports } = await startHandlers(handlers, { TASK_CANCEL_GRACE_MS: '60000' });
    const untilReport = async (attempt: number) => {
      const startedAt = performance.now();
      const outcome = run('work', {}, { attempt });
      await until(() => reports.length === attempt);
      const reportedMs = performance.now() - startedAt;
      cancel();
      expect(await outcome).to.deep.equal(returned);
      return reportedMs;
    };
    await untilReport(1);
    // A timer can fire almost a millisecond early.
    expect(await untilReport(2)).to.be.above(99);
  });

  it('does not use a connection that was closed while its thread was idle', async () => {
    const server = createServer((request, response) => {
      request.resume();
      response.end('ok');
    });
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    afterTest(() => new Promise((resolve) => server.close(resolve)));
    const { port } = server.address() as AddressInfo;
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
    for (let time = 0; time < 5; time++) {
      expect(await run('fetch')).to.deep.equal(returned);
      expect(await connections(server)).to.equal(1);
      server.closeAllConnections();
      await eventually(
        async () => {
          await run('idle connections');
          return output();
        },
        (count) => count === 0,
      );
    }
  });

  it('does not see the setting with which the pool starts its threads', async () => {
    const { run, output } = await startHandlers(`
      environment: () => Object.keys(process.env).filter((name) => name.startsWith('PISCINA')),
    `);
    expect(await run('environment')).to.deep.equal(returned);
    expect(output()).to.deep.equal([]);
  });

  describe('with a time limit of its own', () => {
    const handlers = `
      heed: { timeoutMs: 30, handler: (_, { signal }) => new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(new Error('aborted: ' + signal.reason.name)));
      }) },
      finish: { timeoutMs: 30, handler: (_, { signal }) => new Promise((resolve) => {
        signal.addEventListener('abort', () => resolve(signal.reason.message));
      }) },
      ignore: { timeoutMs: 30, handler: () => new Promise(() => {}) },
      block: { timeoutMs: 30, handler() { for (;;); } },
      ok: () => 'ok',
    `;
    it('has its signal aborted, and may end well or badly', async () => {
      const { run, output } = await startHandlers(handlers);
      expect(await run('heed')).to.deep.equal(failed('took longer than 30 ms'));
      expect(await run('finish')).to.deep.equal(returned);
      expect(output()).to.equal('took longer than 30 ms');
    });

    for (const action of ['ignore', 'block']) {
      it(`ends with its thread if it does not: ${action}`, async () => {
        const { run } = await startHandlers(handlers);
        const others = [run('ok'), run(action), run('ok')];
        expect(await Promise.all(others)).to.deep.equal([
          returned,
          { ended: 'crashed', reason: 'took longer than 30 ms' },
          returned,
        ]);
      });
    }

    it('may have a longer one than other tasks', async () => {
      const { run } = await startHandlers(
        `slow: { timeoutMs: 60000, handler: () => new Promise((resolve) => setTimeout(resolve, 100)) }`,
        { TASK_TIMEOUT_MS: '20', TASK_CANCEL_GRACE_MS: '0' },
      );
      expect(await run('slow')).to.deep.equal(returned);
    });
  });

  describe('at a shutdown', () => {
    const handlers = `
      heed: (_, { signal, progress }) => new Promise((_, reject) => {
        signal.addEventListener('abort', () => reject(signal.reason));
        progress(0);
      }),
      finish: (_, { signal, progress }) => new Promise((resolve) => {
        signal.addEventListener('abort', resolve);
        progress(0);
      }),
      'read late': async (_, task) => {
        task.progress(0);
        while (!task.signal.aborted) await new Promise(setImmediate);
        throw task.signal.reason;
      },
    `;
    for (const [action, ended] of [
      ['heed', 'released'],
      ['read late', 'released'],
      ['finish', 'returned'],
    ] as const) {
      it(`has its signal aborted, and its task is ${ended}: ${action}`, async () => {
        const { run, pool, reports } = await startHandlers(handlers);
        const outcome = run(action);
        await until(() => reports.length > 0);
        await pool.stop(new Promise(() => {}));
        expect((await outcome).ended).to.equal(ended);
      });
    }
  });
});

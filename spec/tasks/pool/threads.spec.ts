import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { mock } from 'node:test';
import { pathToFileURL } from 'node:url';
import { expect } from 'chai';
import type { Clock } from '../../../workers/shared/clock.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { watchThreads } from '../../support/threads.ts';
import { until } from '../../support/until.ts';
import { returned, startHandlers, startPool, writeHandlers } from '../handlers/handling.ts';

/** Code of a module's handlers, whose import runs `code` in the threads whose number `which` compares. The check is 1. */
async function inThreads(which: string, code: string): Promise<string> {
  const log = JSON.stringify(join(await temporaryFolder(), 'imports'));
  return `
    ...(await (async () => {
      const { appendFileSync, readFileSync } = process.getBuiltinModule('fs');
      appendFileSync(${log}, 'x');
      const { length } = readFileSync(${log});
      if (length ${which}) { ${code} }
    })()),
    die: () => process.reallyExit(7),
    ok: () => 'ok',
  `;
}

/** Code that blocks its thread, and takes no CPU time from other specs. */
const BLOCK = 'Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)';

const crashed = { ended: 'crashed', reason: 'thread died: exit code 7' };

describe('the threads of a pool', () => {
  it('are replaced if they are blocked while idle, and the task is not charged', async () => {
    const clock = new ManualClock();
    const handlers = `block() { setImmediate(() => { console.log('blocked'); ${BLOCK}; }); }, ok: () => 'ok',`;
    const { run, told, logged, pool } = await startHandlers(handlers, {}, clock);
    expect(await run('block')).to.deep.equal(returned);
    await logged(({ msg }) => msg === 'blocked');
    const outcome = run('ok');
    expect(pool.busy).to.equal(1);
    expect(pool.threadOf('2')).to.be.a('number');
    expect(pool.threadOf('1')).to.equal(undefined);
    clock.advance(15_000);
    await logged(({ msg }) => msg === 'a blocked task thread is replaced');
    expect(await outcome).to.deep.equal(returned);
    expect(told).to.deep.equal(['1 started', '1 ended', '2 started', '2 ended']);
  });

  it('are all replaced if a new one does not load in time, and running tasks run again', async () => {
    const clock = new ManualClock();
    const code = await inThreads('=== 4', "console.log('loads'); await new Promise(() => {});");
    const handlers = `${code} wait: (_, { signal }) => aborted(signal),`;
    const { run, told, cancel, pool, lines, logged } = await startHandlers(handlers, { TASK_CONCURRENCY: '2' }, clock);
    const waits = run('wait');
    await until(() => told.length === 1);
    expect([await run('die'), pool.serving]).to.deep.equal([crashed, true]);
    await logged(({ msg }) => msg === 'loads');
    clock.advance(10_000);
    expect(pool.serving).to.equal(false);
    expect(lines.at(-1)).to.include({ msg: 'the task threads do not start: all are replaced', delayMs: 50 });
    await until(() => {
      clock.advance(1);
      return pool.serving;
    });
    cancel(1);
    expect(await waits).to.deep.equal(returned);
  });

  it('are all replaced while new ones fail to load, after growing delays of at most 5 s, and stopped meanwhile', async () => {
    const clock = new ManualClock();
    const code = await inThreads('> 2', `if (length % 2) throw new Error('not this time'); process.reallyExit(1);`);
    const { run, pool, lines } = await startHandlers(code, {}, clock);
    expect(await run('die')).to.deep.equal(crashed);
    const outcome = run('ok');
    // A thread that fails before its test also logs why, which has no delay.
    const delays = () => lines.flatMap(({ delayMs }) => delayMs ?? []);
    await until(() => {
      clock.advance(100);
      return delays().length === 9;
    });
    expect(delays()).to.deep.equal([50, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
    await pool.stop(Promise.resolve());
    expect(await outcome).to.include({ ended: 'released' });
    expect(lines.map(({ msg }) => msg)).to.not.include('the task threads run again');
  });
});

/** Starts a pool of one thread without a handlers module. */
async function startBuiltIns(env: Record<string, string> = {}, clock?: Clock) {
  const started = await startPool(env, clock, new URL('threads/built-in.ts', import.meta.url));
  const folder = await temporaryFolder();
  const data = { begun: join(folder, 'begun'), go: join(folder, 'go') };
  return { ...started, held: { data, release: () => writeFileSync(data.go, '') } };
}

describe('a pool without a handlers module', () => {
  it('runs as many tasks as its window holds without a round trip between two, in order', async () => {
    const { pool, run, starts } = await startBuiltIns({ TASK_PREFETCH: '3' });
    expect([pool.threads, pool.overlap, pool.busy, pool.serving]).to.deep.equal([1, 1, 0, true]);
    const outcomes = [1, 2, 3, 4].map(() => run('return'));
    expect([starts().join(''), pool.busy]).to.deep.equal(['123', 1]);
    expect(await Promise.all(outcomes)).to.deep.equal(Array(4).fill(returned));
    expect(starts().join('')).to.equal('1234');
    expect(pool.durations.cumulative()).to.include({ count: 4, sum: 6 });
  });

  it('gives a task to the thread with the fewest', async () => {
    const { pool, run, held, starts } = await startBuiltIns({ TASK_CONCURRENCY: '2', TASK_PREFETCH: '3' });
    const waits = run('wait', held.data);
    expect([await run('return'), pool.busy]).to.deep.equal([returned, 1]);
    for (const _ of [3, 4]) void run('return');
    expect(starts().join(''), 'the whole window').to.equal('1234');
    held.release();
    expect(await waits).to.deep.equal(returned);
  });

  it('ends the thread of a task that reaches its time limit, which counts elapsed time from the end of the previous one', async () => {
    const clock = new ManualClock();
    const { pool, run, held } = await startBuiltIns({ TASK_TIMEOUT_MS: '1000' }, clock);
    const watched = watchThreads();
    const [waits, hangs] = [run('wait', held.data), run('hang')];
    await until(() => existsSync(held.data.begun));
    clock.advance(900);
    held.release();
    expect(await waits).to.deep.equal(returned);
    clock.jump(60_000);
    clock.advance(900);
    const after = run('return');
    clock.advance(100);
    // Both run again, alone.
    await until(() => watched.threads.length === 1 && pool.busy === 1);
    clock.advance(1000);
    expect(await hangs).to.deep.equal({ ended: 'crashed', reason: 'took longer than 1000 ms' });
    expect(await after).to.deep.equal(returned);
  });

  it('runs a task alone whose earlier attempt has crashed, or is suspected', async () => {
    for (const about of [{ crashes: 1 }, { isSuspect: true }]) {
      const { run, starts } = await startBuiltIns();
      const outcomes = [run('return'), run('return', {}, about), run('return')];
      expect(starts().join('')).to.equal('1');
      await Promise.all(outcomes);
      expect(starts().join('')).to.equal('123');
    }
  });

  it('replaces a thread that dies while it has nothing to do, and uses an answer that arrives before its messages', async () => {
    const watched = watchThreads();
    const { run, told, reports, lines } = await startBuiltIns();
    await watched.threads[0]?.terminate();
    expect(await run('tell')).to.deep.equal(returned);
    expect([told, reports]).to.deep.equal([['1 started', '1 ack', '1 ended'], [{ id: '1', fraction: 1 }]]);
    // Its thread has not ended yet.
    watched.threads[1]?.emit('error', new Error('no memory'));
    expect(await run('return')).to.deep.equal(returned);
    expect(lines.map(({ msg }) => msg)).to.deep.equal(['a task thread died outside of a task']);
  });

  it('releases tasks that wait, and after a stop all others', async () => {
    const { pool, run } = await startBuiltIns({ TASK_PREFETCH: '1' });
    const [hangs, waits] = [run('hang'), run('return')];
    pool.releaseWaiting();
    expect(await waits).to.deep.equal({ ended: 'released', reason: 'no thread was free' });
    const last = run('return');
    const stopped = pool.stop(Promise.resolve());
    const late = run('return');
    await stopped;
    for (const outcome of [hangs, last, late, run('return')]) expect(await outcome).to.include({ ended: 'released' });
  });
});

/** Starts a pool with handlers that can count how many of them run in their thread, one of which ends it by `death`. */
async function startOverlapping(env: Record<string, string> = {}, death = 'process.reallyExit(7)', clock?: Clock) {
  const dead = join(await temporaryFolder(), 'dead');
  const isDead = `process.getBuiltinModule('fs').existsSync(${JSON.stringify(dead)})`;
  const handlers = `
    ...(globalThis.running = 0, {}),
    // Waits for its signal, or returns how many run in the thread if the death has happened.
    async wait(_, { signal }) { running += 1; await (${isDead} ? pause(20) : aborted(signal)); return running--; },
    async die(_, { progress }) {
      running += 1; progress(0);
      while (!${isDead}) await new Promise(setImmediate);
      ${death};
    },
    ignore: (_, { progress }) => { running += 1; progress(0); return new Promise(() => {}); },
    acked(_, { ack }) { ack(); return new Promise(() => {}); },
    hang: { timeoutMs: 500, handler: () => new Promise(() => {}) },
    // Ends its thread if the death has happened, unless its signal is aborted meanwhile.
    late: { timeoutMs: 500, async handler(_, { signal }) {
      await (${isDead} ? pause(20) : new Promise(() => {})); if (!signal.aborted) ${death};
    } },
    alone: { overlap: false, async handler() { running += 1; await pause(20); return running--; } },
  `;
  const started = await startHandlers(handlers, { TASK_OVERLAP: '10', TASK_CANCEL_GRACE_MS: '60000', ...env }, clock);
  return { ...started, die: () => writeFileSync(dead, '') };
}

describe('handlers that share threads', () => {
  it('run at once, as many as the threads take', async () => {
    const { run, told, starts, pool } = await startOverlapping({ TASK_CONCURRENCY: '2' });
    expect([pool.threads, pool.overlap]).to.deep.equal([2, 10]);
    const outcomes = Array.from({ length: 21 }, () => run('wait'));
    await until(() => told.length === 20);
    expect(pool.busy).to.equal(2);
    await pool.stop(new Promise(() => {}));
    const ended = (await Promise.all(outcomes)).map((outcome) => outcome.ended);
    expect(ended).to.deep.equal([...Array(20).fill('returned'), 'released']);
    expect(starts()).to.have.length(20);
  });

  it('start in order as others end', async () => {
    const { run, told, cancel } = await startOverlapping({ TASK_OVERLAP: '2' });
    const [first, , third, fourth] = [run('wait'), run('wait'), run('wait'), run('wait')];
    await until(() => told.length === 2);
    expect([cancel(4), await fourth]).to.deep.equal([true, { ended: 'released', reason: 'cancelled' }]);
    expect([cancel(1), await first]).to.deep.equal([false, returned]);
    await until(() => told.includes('3 started'));
    cancel(3);
    expect(await third).to.deep.equal(returned);
    expect(told).to.not.include('2 ended');
  });

  for (const [place, env, death, reason] of [
    ['thread', {}, 'process.reallyExit(7)', 'thread died: exit code 7'],
    ['thread in a process', { TASK_ISOLATION: 'process' }, 'process.reallyExit(7)', 'thread died: exit code 7'],
    ['process', { TASK_ISOLATION: 'process' }, 'process.kill(process.pid, "SIGABRT")', 'process died: SIGABRT'],
  ] as const) {
    it(`run again, each alone, if their ${place} ends, and only the one that ends it again is charged`, async () => {
      const { run, told, output, cancel, die } = await startOverlapping({ ...env, TASK_OVERLAP: '4' }, death);
      const outcomes = [run('wait'), run('die'), run('wait'), run('wait'), run('wait')];
      await until(() => told.length === 4);
      die();
      const expected = [returned, { ended: 'crashed', reason }, ...Array(3).fill(returned)];
      expect(await Promise.all(outcomes)).to.deep.equal(expected);
      const ends = [1, 2, 3, 4].map((id) => `${id} ended`);
      expect([output(), told.slice(4)]).to.deep.equal([1, [...ends, '5 started', '5 ended']]);
      const { mock: aborts } = mock.method(BroadcastChannel.prototype, 'postMessage');
      for (const id of [1, 2]) cancel(id);
      expect(aborts.callCount(), 'of tasks that have ended').to.equal(0);
    });
  }

  it('have their whole time limits when they run again alone', async () => {
    const clock = new ManualClock();
    const { mock: timers } = mock.method(clock, 'timer');
    const { run, told, die } = await startOverlapping({ TASK_CANCEL_GRACE_MS: '20' }, undefined, clock);
    const outcomes = [run('late'), run('hang')];
    await until(() => told.length === 2);
    die();
    clock.advance(520);
    for (const [stepMs, events] of Object.entries({ 0: 3, 20: 4 }))
      await until(() => {
        clock.advance(Number(stepMs));
        return told.length === events;
      });
    const reasons = ['thread died: exit code 7', 'took longer than 500 ms'];
    expect(await Promise.all(outcomes)).to.deep.equal(reasons.map((reason) => ({ ended: 'crashed', reason })));
    for (const { arguments: timing } of timers.calls) expect(timing[0], 'no old time limit').to.be.above(0);
  });

  it('run again alone if one of them ignores its signal', async () => {
    const watched = watchThreads();
    const { run, told, cancel, output, die } = await startOverlapping({ TASK_CANCEL_GRACE_MS: '50' });
    const outcomes = [run('wait'), run('wait'), run('ignore')];
    await until(() => told.length === 3);
    die();
    expect(cancel()).to.equal(false);
    expect(await Promise.all(outcomes)).to.deep.equal([returned, returned, { ended: 'cancelled' }]);
    expect(output()).to.equal(1);
    expect(watched.ended).to.be.at.least(1);
  });

  for (const TASK_ISOLATION of ['thread', 'process'])
    it(`end in the old module after a reload, and later ones run in the newest, also if it loads meanwhile: ${TASK_ISOLATION}`, async () => {
      const source = (word: string) =>
        `export default { word: () => '${word}', wait: (_, { signal }) => aborted(signal), die: () => process.reallyExit(7) };`;
      const TASK_HANDLERS = await writeHandlers(source('old'), 'handlers.mjs');
      const env = { TASK_HANDLERS, TASK_ISOLATION, TASK_CANCEL_GRACE_MS: '60000' };
      const { run, told, cancel, output, pool } = await startPool(env);
      const url = pathToFileURL(TASK_HANDLERS).href;
      const reload = (word: string) => pool.reload(new Map([[url, { format: 'module', source: source(word) }]]));
      const waits = run('wait');
      await until(() => told.length === 1);
      reload('new');
      cancel();
      expect([await waits, await run('word'), output()]).to.deep.equal([returned, returned, 'new']);
      expect(await run('die')).to.deep.equal(crashed);
      reload('newest');
      expect([await run('word'), output()]).to.deep.equal([returned, 'newest']);
    });

  it('do not run again if they have settled their tasks', async () => {
    const { run, told, die } = await startOverlapping();
    const outcomes = [run('acked'), run('die')];
    await until(() => told.length === 3);
    die();
    expect((await Promise.all(outcomes)).map(({ ended }) => ended)).to.deep.equal(['released', 'crashed']);
    expect(told.filter((event) => event.startsWith('1'))).to.deep.equal(['1 started', '1 ack', '1 ended']);
  });

  it('leave a thread to an action that must not share, in the order of the tasks', async () => {
    const { run, told, cancel, output } = await startOverlapping();
    const waits = run('wait');
    await until(() => told.length === 1);
    const outcomes = [run('alone'), run('sum', { numbers: [1] }), run('alone')];
    expect(told).to.deep.equal(['1 started']);
    cancel(1);
    expect(await Promise.all([waits, ...outcomes])).to.deep.equal(Array(4).fill(returned));
    expect(told).to.deep.equal(['1', '2', '3', '4'].flatMap((id) => [`${id} started`, `${id} ended`]));
    expect(output()).to.equal(1);
  });
});

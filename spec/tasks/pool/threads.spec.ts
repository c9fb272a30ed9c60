import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Clock } from '../../../workers/shared/clock.ts';
import { temporaryFolder } from '../../support/cleanup.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { watchThreads } from '../../support/threads.ts';
import { until } from '../../support/until.ts';
import { returned, startHandlers, startPool } from '../handlers/handling.ts';

/** Code of a module's handlers, whose import runs `code` in the second thread. The check of the module comes first. */
async function secondThread(code: string): Promise<string> {
  const log = JSON.stringify(join(await temporaryFolder(), 'imports'));
  return `
    ...(await (async () => {
      const { appendFileSync, readFileSync } = process.getBuiltinModule('fs');
      appendFileSync(${log}, 'x');
      if (readFileSync(${log}, 'utf8').length === 3) { ${code} }
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
    const { run, told, logged, pool } = await startHandlers(
      `block() { setImmediate(() => { console.log('blocked'); ${BLOCK}; }); }, ok: () => 'ok',`,
      {},
      clock,
    );
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
    const handlers = `${await secondThread('await new Promise(() => {});')} wait: (_, { signal }) => aborted(signal),`;
    const { run, told, cancel, pool, lines } = await startHandlers(handlers, {}, clock);
    expect(await run('die')).to.deep.equal(crashed);
    const waits = run('wait');
    await until(() => clock.timers === 1);
    expect(pool.serving).to.equal(true);
    clock.advance(10_000);
    expect(pool.serving).to.equal(false);
    expect(lines.at(-1)).to.include({ msg: 'the task threads do not start: all are replaced', delayMs: 50 });
    await until(() => {
      clock.advance(50);
      return pool.serving;
    });
    await until(() => told.includes('2 started'));
    cancel();
    expect(await waits).to.deep.equal(returned);
  });

  it('are all replaced if a new one fails to load', async () => {
    for (const code of [`throw new Error('not this time');`, 'process.reallyExit(1);']) {
      const { run, pool, lines } = await startHandlers(await secondThread(code));
      expect(await run('die')).to.deep.equal(crashed);
      expect(await run('ok')).to.deep.equal(returned);
      expect(pool.serving).to.equal(true);
      expect(lines.map(({ msg }) => msg)).to.include('the task threads do not start: all are replaced');
    }
  });

  it('are stopped although they are being replaced', async () => {
    const { run, pool } = await startHandlers(await secondThread('process.reallyExit(1);'));
    expect(await run('die')).to.deep.equal(crashed);
    const outcome = run('ok');
    await until(() => !pool.serving);
    await pool.stop(Promise.resolve());
    expect(await outcome).to.include({ ended: 'released' });
  });
});

/** Starts a pool of one thread without a handlers module. */
async function startBuiltIns(env: Record<string, string> = {}, clock?: Clock) {
  const started = await startPool(env, clock, new URL('threads/built-in.ts', import.meta.url));
  const folder = await temporaryFolder();
  /** Data of a task that waits until it is released. */
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
    const { pool, run, held } = await startBuiltIns({ TASK_CONCURRENCY: '2', TASK_PREFETCH: '4' });
    const waits = run('wait', held.data);
    expect(await run('return')).to.deep.equal(returned);
    expect(pool.busy).to.equal(1);
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

  it('runs a task alone whose earlier attempt has crashed', async () => {
    const { run, starts } = await startBuiltIns();
    const outcomes = [run('return'), run('return', {}, { crashes: 1 }), run('return')];
    expect(starts().join('')).to.equal('1');
    await Promise.all(outcomes);
    expect(starts().join('')).to.equal('123');
  });

  it('replaces a thread that dies while it has nothing to do', async () => {
    const watched = watchThreads();
    const { run } = await startBuiltIns();
    await watched.threads[0]?.terminate();
    expect(await run('return')).to.deep.equal(returned);
  });

  it('releases tasks that wait, and after a stop all others', async () => {
    const { pool, run } = await startBuiltIns({ TASK_PREFETCH: '1' });
    const [hangs, waits] = [run('hang'), run('return')];
    pool.releaseWaiting();
    expect(await waits).to.deep.equal({ ended: 'released', reason: 'no thread was free' });
    const last = run('return');
    await pool.stop(Promise.resolve());
    for (const outcome of [hangs, last, run('return')]) expect(await outcome).to.include({ ended: 'released' });
  });
});

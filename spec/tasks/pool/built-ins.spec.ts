import { existsSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import type { Delivery } from '../../../db/task-store.ts';
import { loadConfig } from '../../../main/config.ts';
import type { Outcome } from '../../../main/tasks/pool/run.ts';
import { ThreadPool } from '../../../main/tasks/pool/thread-pool.ts';
import { type Clock, systemClock } from '../../../workers/shared/clock.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { watchThreads } from '../../support/threads.ts';
import { until } from '../../support/until.ts';
import { newDelivery } from '../handlers/handling.ts';

const returned = (action: string) => ({ ended: 'returned', output: JSON.stringify(action) });

/** Starts a pool of one thread without a handlers module. */
async function startBuiltIns(env: Record<string, string> = {}, clock: Clock = systemClock) {
  const { tasks } = loadConfig({ TASK_CONCURRENCY: '1', ...env });
  const { log, lines } = captureLog();
  const parts = { actions: new Map(), clock, log };
  const pool = await ThreadPool.start(tasks, parts, new URL('threads/built-in.ts', import.meta.url));
  afterTest(() => pool.stop(Promise.resolve()));
  /** Ids of started tasks, in order. */
  const started: string[] = [];
  const run = (id: string, action: string, data: object = {}, about: Partial<Delivery> = {}): Promise<Outcome> =>
    pool.run(newDelivery(id, action, data, about), {
      onStart: () => started.push(id),
      onAcknowledged() {},
      onProgress() {},
    });
  return { pool, run, started, lines };
}

describe('a pool without a handlers module', () => {
  it('runs as many tasks as its window holds without a round trip between two, in order', async () => {
    const { pool, run, started } = await startBuiltIns({ TASK_PREFETCH: '3' });
    expect([pool.threads, pool.overlap, pool.busy, pool.serving]).to.deep.equal([1, 1, 0, true]);
    const outcomes = ['a', 'b', 'c', 'd'].map((id) => run(id, 'return'));
    expect(started).to.deep.equal(['a', 'b', 'c']);
    expect(pool.busy).to.equal(1);
    expect(await Promise.all(outcomes)).to.deep.equal(Array(4).fill(returned('return')));
    expect(started).to.deep.equal(['a', 'b', 'c', 'd']);
    expect(pool.durations.cumulative()).to.include({ count: 4, sum: 6 });
  });

  it('gives a task to the thread with the fewest', async () => {
    const folder = await temporaryFolder();
    const data = { begun: join(folder, 'begun'), go: join(folder, 'go') };
    const { pool, run } = await startBuiltIns({ TASK_CONCURRENCY: '2', TASK_PREFETCH: '4' });
    const waits = run('a', 'wait', data);
    expect(await run('b', 'return')).to.deep.equal(returned('return'));
    expect(pool.busy).to.equal(1);
    writeFileSync(data.go, '');
    expect(await waits).to.deep.equal(returned('wait'));
  });

  it('ends the thread of a task that reaches its time limit, which counts elapsed time from the end of the previous one', async () => {
    const clock = new ManualClock();
    const folder = await temporaryFolder();
    const data = { begun: join(folder, 'begun'), go: join(folder, 'go') };
    const { pool, run } = await startBuiltIns({ TASK_TIMEOUT_MS: '1000' }, clock);
    const watched = watchThreads();
    const waits = run('a', 'wait', data);
    const hangs = run('b', 'hang');
    await until(() => existsSync(data.begun));
    clock.advance(900);
    writeFileSync(data.go, '');
    expect(await waits).to.deep.equal(returned('wait'));
    clock.jump(60_000);
    clock.advance(900);
    const after = run('c', 'return');
    clock.advance(100);
    // Both run again, alone.
    await until(() => watched.threads.length === 1 && pool.busy === 1);
    clock.advance(1000);
    expect(await hangs).to.deep.equal({ ended: 'crashed', reason: 'took longer than 1000 ms' });
    expect(await after).to.deep.equal(returned('return'));
  });

  it('runs a task alone whose earlier attempt has crashed', async () => {
    const { run, started } = await startBuiltIns();
    const outcomes = [run('a', 'return'), run('b', 'return', {}, { crashes: 1 }), run('c', 'return')];
    expect(started).to.deep.equal(['a']);
    await Promise.all(outcomes);
    expect(started).to.deep.equal(['a', 'b', 'c']);
  });

  it('replaces a thread that dies while it has nothing to do', async () => {
    const watched = watchThreads();
    const { run } = await startBuiltIns();
    await watched.threads[0]?.terminate();
    expect(await run('a', 'return')).to.deep.equal(returned('return'));
  });

  it('releases tasks that wait, and after a stop all others', async () => {
    const { pool, run } = await startBuiltIns({ TASK_PREFETCH: '1' });
    const [hangs, waits] = [run('a', 'hang'), run('b', 'return')];
    pool.releaseWaiting();
    expect(await waits).to.deep.equal({ ended: 'released', reason: 'no thread was free' });
    const last = run('c', 'return');
    await pool.stop(Promise.resolve());
    expect(await hangs).to.include({ ended: 'released' });
    expect(await last).to.include({ ended: 'released' });
    expect(await run('d', 'return')).to.include({ ended: 'released' });
  });
});

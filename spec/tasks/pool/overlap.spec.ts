import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../../support/cleanup.ts';
import { watchThreads } from '../../support/threads.ts';
import { until } from '../../support/until.ts';
import { returned, startHandlers } from '../handlers/handling.ts';

/** Starts a pool with handlers that can count how many of them run in their thread, one of which ends it by `death`. */
async function start(env: Record<string, string> = {}, death = 'process.reallyExit(7)') {
  const dead = join(await temporaryFolder(), 'dead');
  const isDead = `process.getBuiltinModule('fs').existsSync(${JSON.stringify(dead)})`;
  const handlers = `
    ...(globalThis.running = 0, {}),
    // Waits for its signal, or returns how many run in the thread if the death has happened.
    async wait(_, { signal }) { running += 1; await (${isDead} ? pause(20) : aborted(signal)); return running--; },
    async die(_, { progress }) {
      running += 1;
      progress(0);
      while (!${isDead}) await new Promise(setImmediate);
      ${death};
    },
    ignore: (_, { progress }) => { running += 1; progress(0); return new Promise(() => {}); },
    acked(_, { ack }) { ack(); return new Promise(() => {}); },
    hang: { timeoutMs: 500, handler: () => new Promise(() => {}) },
    alone: { overlap: false, async handler() { running += 1; await new Promise(setImmediate); return running--; } },
  `;
  const started = await startHandlers(handlers, { TASK_OVERLAP: '10', TASK_CANCEL_GRACE_MS: '60000', ...env });
  return { ...started, die: () => writeFileSync(dead, '') };
}

describe('handlers that share threads', () => {
  it('run at once, as many as the threads take', async () => {
    const { run, told, starts, pool } = await start({ TASK_CONCURRENCY: '2' });
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
    const { run, told, cancel } = await start({ TASK_OVERLAP: '2' });
    const [first, , third, fourth] = [run('wait'), run('wait'), run('wait'), run('wait')];
    await until(() => told.length === 2);
    expect(cancel(4)).to.equal(true);
    expect(await fourth).to.deep.equal({ ended: 'released', reason: 'cancelled' });
    expect(cancel(1)).to.equal(false);
    expect(await first).to.deep.equal(returned);
    await until(() => told.includes('3 started'));
    cancel(3);
    expect(await third).to.deep.equal(returned);
  });

  for (const [place, env, death, reason] of [
    ['thread', {}, 'process.reallyExit(7)', 'thread died: exit code 7'],
    ['process', { TASK_ISOLATION: 'process' }, 'process.kill(process.pid, "SIGABRT")', 'process died: SIGABRT'],
  ] as const) {
    it(`run again, each alone, if their ${place} ends, and only the one that ends it again is charged`, async () => {
      const { run, told, starts, output, die } = await start(env, death);
      const outcomes = [run('wait'), run('die'), run('wait'), run('wait')];
      await until(() => told.length === 4);
      die();
      expect(await Promise.all(outcomes)).to.deep.equal([returned, { ended: 'crashed', reason }, returned, returned]);
      expect(output()).to.equal(1);
      expect(starts()).to.have.length(4);
    });
  }

  it('have their time limits also when they run again alone', async () => {
    const { run, told, die } = await start({ TASK_CANCEL_GRACE_MS: '20' });
    const outcomes = [run('hang'), run('die')];
    await until(() => told.length === 2);
    die();
    const reasons = ['took longer than 500 ms', 'thread died: exit code 7'];
    expect(await Promise.all(outcomes)).to.deep.equal(reasons.map((reason) => ({ ended: 'crashed', reason })));
  });

  it('run again alone if one of them ignores its signal', async () => {
    const watched = watchThreads();
    const { run, told, cancel, output, die } = await start({ TASK_CANCEL_GRACE_MS: '50' });
    const outcomes = [run('wait'), run('wait'), run('ignore')];
    await until(() => told.length === 3);
    die();
    expect(cancel()).to.equal(false);
    expect(await Promise.all(outcomes)).to.deep.equal([returned, returned, { ended: 'cancelled' }]);
    expect(output()).to.equal(1);
    expect(watched.ended).to.be.at.least(1);
  });

  it('do not run again if they have settled their tasks', async () => {
    const { run, told, die } = await start();
    const outcomes = [run('acked'), run('die')];
    await until(() => told.length === 3);
    die();
    expect((await Promise.all(outcomes)).map(({ ended }) => ended)).to.deep.equal(['released', 'crashed']);
    expect(told.filter((event) => event.startsWith('1'))).to.deep.equal(['1 started', '1 ack', '1 ended']);
  });

  it('leave a thread to an action that must not share, in the order of the tasks', async () => {
    const { run, told, cancel, output } = await start();
    const waits = run('wait');
    await until(() => told.length === 1);
    const outcomes = [run('alone'), run('alone')];
    expect(told).to.deep.equal(['1 started']);
    cancel(1);
    expect(await Promise.all([waits, ...outcomes])).to.deep.equal([returned, returned, returned]);
    expect(told).to.deep.equal(['1', '2', '3'].flatMap((id) => [`${id} started`, `${id} ended`]));
    expect(output()).to.equal(1);
  });
});

import { join } from 'node:path';
import { expect } from 'chai';
import { temporaryFolder } from '../../support/cleanup.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { until } from '../../support/until.ts';
import { returned, startHandlers } from '../handlers/handling.ts';

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

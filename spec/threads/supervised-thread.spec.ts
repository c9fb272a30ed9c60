import { mock } from 'node:test';
import { expect } from 'chai';
import { SupervisedThread } from '../../main/threads/supervised-thread.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { until } from '../support/until.ts';

describe('a supervised worker', () => {
  it('is restarted with growing delays, also if the process cannot create a thread, and at once after ten seconds, but not once it is stopped', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    let now = 0;
    mock.method(performance, 'now', () => now);
    const { log, lines } = captureLog();
    let spawned = 0;
    const worker = new SupervisedThread({
      name: 'test',
      file: new URL('data:text/javascript,process.exit()'),
      // A function cannot be cloned, so the second thread is not created.
      workerData: () => (++spawned === 2 ? { fails() {} } : {}),
      log,
    });
    afterTest(() => worker.stop());
    void worker.start();
    const delays = () => lines.flatMap(({ delayMs }) => delayMs ?? []);
    const expected = [0, 100, 500, 1000, 5000, 5000, 0, 100];
    for (const [index, delayMs] of expected.entries()) {
      await until(() => delays().length > index);
      if (index === 7) await worker.stop();
      mock.timers.tick(delayMs);
      if (index === 5) now = 10_000;
    }
    expect([delays(), spawned], 'no restart once it is stopped').to.deep.equal([expected, 8]);
    expect(lines.filter(({ msg }) => msg === 'the test thread failed')).to.have.length(1);
  });

  it('may load slowly, is restarted after four missed heartbeats, and is watched until it is stopped', async () => {
    mock.timers.enable({ apis: ['setInterval'] });
    const counters: SharedArrayBuffer[] = [];
    const alive: boolean[] = [];
    const worker = new SupervisedThread({
      name: 'test',
      file: new URL('data:text/javascript,setInterval(() => {}, 1000)'),
      workerData: (counter) => ({ thread: counters.push(counter) }),
      onHeartbeat: (isAlive) => alive.push(isAlive),
      log: captureLog().log,
    });
    afterTest(() => worker.stop());
    void worker.start();
    mock.timers.tick(60_000);
    expect(alive).to.deep.equal([]);
    const beat = () => Atomics.add(new Int32Array(counters[0] as SharedArrayBuffer), 0, 1);
    beat();
    mock.timers.tick(4000);
    expect(alive).to.deep.equal([true, false, false, false]);
    mock.timers.tick(1000);
    await until(() => counters.length === 2);
    beat();
    mock.timers.tick(1000);
    await worker.stop();
    mock.timers.tick(60_000);
    expect(alive.slice(4)).to.deep.equal([false, true]);
  });
});

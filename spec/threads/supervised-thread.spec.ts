import { expect } from 'chai';
import { SupervisedThread } from '../../main/threads/supervised-thread.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { until } from '../support/until.ts';

describe('a supervised worker', () => {
  it('is restarted later if the process cannot create a thread', async () => {
    const { log, lines } = captureLog();
    let spawned = 0;
    const worker = new SupervisedThread({
      name: 'test',
      file: new URL('../support/ticker-threads/exits.ts', import.meta.url),
      // A function cannot be cloned, so the second thread is not created.
      workerData: () => (++spawned === 2 ? { fails() {} } : {}),
      log,
    });
    afterTest(() => worker.stop());
    void worker.start();
    await until(() => spawned >= 4);
    const failures = lines.filter(({ msg }) => msg === 'the test thread failed');
    expect(failures).to.have.length(1);
    expect(worker.restarts).to.be.at.least(3);
  });
});

import { mock } from 'node:test';
import { expect } from 'chai';
import { SourceStatus } from '../../main/ticker/source-status.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';

describe('the status of the price source', () => {
  it('logs a limited number of recoveries, and then how many were left out', () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    afterTest(() => mock.timers.reset());
    const { log, lines } = captureLog();
    const status = new SourceStatus('source.mjs', log);
    for (let round = 0; round < 100; round++) {
      status.onProblem('prices() failed');
      status.onProblem(undefined);
    }
    expect(status.problem).to.equal(undefined);
    const recoveries = lines.filter(({ msg }) => msg === 'the price source has recovered');
    expect(recoveries).to.have.length(20);
    mock.timers.tick(10_000);
    expect(lines.at(-1)).to.include({
      level: 30,
      source: 'source.mjs',
      suppressed: 80,
      repeated: 'the price source has recovered',
      msg: 'repeated log lines were left out',
    });
  });
});

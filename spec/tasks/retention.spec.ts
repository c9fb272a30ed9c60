import { expect } from 'chai';
import { startRetention } from '../../main/tasks/maintenance.ts';
import { afterTest } from '../support/cleanup.ts';
import { captureLog } from '../support/log.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { until } from '../support/until.ts';

const DAY = 86_400;

/**
 * Starts the loop over a store whose steps each take `stepMs` and return the next of `answers`: whether more may be left, or
 * an error. Each pause passes at once until there is no answer left, and the clock is set forward during each step.
 */
async function run({
  answers,
  stepMs = 0,
  ...given
}: {
  rows?: number;
  days?: number;
  stepMs?: number;
  answers: Answer[];
}) {
  const clock = new ManualClock(100 * DAY * 1000);
  const [limits, pauses]: [unknown[], number[]] = [[], []];
  const { log, lines } = captureLog();
  const sleep = clock.sleep.bind(clock);
  clock.sleep = (delayMs, signal) => {
    pauses.push(delayMs);
    const slept = sleep(delayMs, signal);
    if (answers.length > 0) clock.advance(delayMs);
    return slept;
  };
  const store = {
    async deleteOldRows(asked: unknown) {
      limits.push(asked);
      clock.advance(stepMs);
      clock.jump(DAY * 1000);
      const answer = answers.shift();
      if (answer instanceof Error) throw answer;
      return answer ?? false;
    },
  };
  const retention = startRetention({ rows: 0, days: 0, ...given, log, store, clock });
  afterTest(() => retention.stop());
  await until(() => answers.length === 0 && pauses.length === limits.length);
  return { limits, pauses, lines, retention };
}

type Answer = boolean | Error;

describe('the retention', () => {
  it('gives the store the limits that are set, and does nothing without one', async () => {
    const before = 98 * DAY;
    expect((await run({ rows: 7, answers: [false] })).limits).to.deep.equal([{ rows: 7, before: undefined }]);
    expect((await run({ days: 2, answers: [false] })).limits).to.deep.equal([{ rows: undefined, before }]);
    expect((await run({ rows: 7, days: 2, answers: [false] })).limits).to.deep.equal([{ rows: 7, before }]);
    expect((await run({ answers: [] })).limits).to.deep.equal([]);
  });

  it('leaves two thirds of the time to others between the steps of a pass, at least a second after it, and 95 % if a search takes long', async () => {
    const { pauses } = await run({ rows: 1, stepMs: 5, answers: [true, true, false, true, false] });
    expect(pauses).to.deep.equal([10, 10, 1000, 10, 1000]);
    expect((await run({ rows: 1, stepMs: 400, answers: [false] })).pauses).to.deep.equal([8000]);
  });

  it('logs an error, and tries again after 15 s', async () => {
    const { pauses, lines } = await run({ rows: 1, answers: [new Error('database is locked'), false] });
    expect(pauses).to.deep.equal([15_000, 1000]);
    expect(lines).to.have.lengthOf(1);
    expect(lines[0]).to.include({ level: 50, msg: 'old rows cannot be deleted: retrying', delayMs: 15_000 });
    expect(lines[0]?.err).to.include({ message: 'database is locked' });
  });

  it('ends its pause when it is stopped, which may be asked for twice, and deletes no more', async () => {
    const { limits, retention } = await run({ rows: 1, answers: [false] });
    await retention.stop();
    await retention.stop();
    expect(limits).to.have.lengthOf(1);
  });
});

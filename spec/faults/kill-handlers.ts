/**
 * Handlers of the kill test. Each run is appended to the file `KILL_RUNS`, which survives a kill up to the last line:
 * round, id, `begin` or `fail`, attempt, and microseconds of the machine's monotonic clock.
 */
import { appendFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { defineHandlers, PermanentError, RetryAfter, type TaskContext } from '../../workers/tasks/handlers-api.ts';

const { KILL_RUNS = '', KILL_MARKS = '', KILL_ROUND } = process.env;

function note(what: 'begin' | 'fail', { id, attempt }: TaskContext): void {
  const micros = process.hrtime.bigint() / 1000n;
  appendFileSync(KILL_RUNS, `${KILL_ROUND} ${id} ${what} ${attempt} ${micros}\n`);
}

export default defineHandlers({
  double({ n }, task) {
    note('begin', task);
    return n * 2;
  },

  /** Fails `times` times before it returns. */
  flaky: {
    backoff: { firstMs: 300 },
    handler({ n, times, delayMs, nacks }, task) {
      note('begin', task);
      if (task.attempt > times) return n * 2;
      note('fail', task);
      if (!nacks) throw new RetryAfter(delayMs, 'not yet');
      task.nack();
      return undefined;
    },
  },

  hopeless({ reason }, task) {
    note('begin', task);
    note('fail', task);
    throw new PermanentError(reason);
  },

  async wait({ ms }, task) {
    note('begin', task);
    await setTimeout(ms, undefined, { signal: task.signal });
    return 'waited';
  },

  /** Refuses a second run of the same task. */
  async once({ ms }, task) {
    note('begin', task);
    try {
      writeFileSync(join(KILL_MARKS, task.id), '', { flag: 'wx' });
    } catch {
      note('fail', task);
      throw new PermanentError('second run');
    }
    await setTimeout(ms, undefined, { signal: task.signal });
    return 'once';
  },
});

import { expect } from 'chai';
import { TimeLimit } from '../../../main/tasks/pool/time-limit.ts';
import { AttemptField } from '../../../workers/messages.ts';

describe('the time limit of tasks', () => {
  it('does not blame a task of the previous batch', () => {
    const timeLimit = new TimeLimit({ slots: 1, timeoutMs: 60_000, onTimeout: () => {} });
    const cells = new Float64Array(timeLimit.attempts);
    const first = timeLimit.watch(0, 3);
    // A thread writes these fields when it starts a task.
    cells[AttemptField.index] = 2;
    cells[AttemptField.beganAt] = Number(process.hrtime.bigint()) / 1e6;
    expect(first()).to.deep.equal({ index: 2, timedOut: false });
    const second = timeLimit.watch(0, 3);
    expect(second()).to.deep.equal({ index: undefined, timedOut: false });
  });
});

import { expect } from 'chai';
import { TaskTimeout } from '../../../main/tasks/pool/task-timeout.ts';
import { AttemptField } from '../../../workers/messages.ts';

describe('the task timeout', () => {
  it('does not blame a task of the previous batch', () => {
    const timeout = new TaskTimeout(1, 60_000, () => {});
    const cells = new Float64Array(timeout.attempts);
    const first = timeout.watch(0, 3);
    // A thread writes these fields when it starts a task.
    cells[AttemptField.index] = 2;
    cells[AttemptField.beganAt] = Number(process.hrtime.bigint()) / 1e6;
    expect(first()).to.deep.equal({ index: 2, timedOut: false });
    const second = timeout.watch(0, 3);
    expect(second()).to.deep.equal({ index: undefined, timedOut: false });
  });
});

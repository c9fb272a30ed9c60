import { expect } from 'chai';
import { taskTimeout } from '../../../main/tasks/pool/task-timeout.ts';
import { AttemptField } from '../../../workers/messages.ts';

describe('the task timeout', () => {
  it('does not blame a task of the previous batch', () => {
    const timeout = taskTimeout(1, 60_000, () => {});
    const cells = new Float64Array(timeout.attempts);
    const first = timeout.watch(0);
    // A thread writes these fields when it starts a task.
    cells[AttemptField.index] = 2;
    cells[AttemptField.deadline] = Number(process.hrtime.bigint()) / 1e6 + 60_000;
    expect(first()).to.deep.equal({ index: 2, exceededMs: undefined });
    const second = timeout.watch(0);
    expect(second()).to.deep.equal({ index: undefined, exceededMs: undefined });
  });

  it('terminates the thread of a task whose own deadline is earlier than the check', async () => {
    const terminated = Promise.withResolvers<number>();
    const timeout = taskTimeout(1, 20, terminated.resolve);
    const cells = new Float64Array(timeout.attempts);
    const ended = timeout.watch(0);
    cells[AttemptField.threadId] = 7;
    cells[AttemptField.timeoutMs] = 5;
    cells[AttemptField.deadline] = Number(process.hrtime.bigint()) / 1e6 + 1;
    expect(await terminated.promise).to.equal(7);
    expect(ended()).to.deep.equal({ index: 0, exceededMs: 5 });
  });
});

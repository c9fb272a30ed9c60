import { mock } from 'node:test';
import { expect } from 'chai';
import { taskCancellation } from '../../../main/tasks/pool/task-cancellation.ts';
import { TERMINATED } from '../../../workers/messages.ts';

const GRACE_MS = 100;

/** Watches a batch in slot 1. The returned `enter` records which task its thread runs. */
function watch() {
  const terminated: number[] = [];
  const cancellation = taskCancellation(2, GRACE_MS, (slot) => terminated.push(slot));
  const running = new Int32Array(cancellation.runningTasks);
  const enter = (index: number) => Atomics.store(running, 1, index);
  return { ...cancellation.watch(1), running, enter, terminated };
}

describe('taskCancellation', () => {
  beforeEach(() => mock.timers.enable({ apis: ['setTimeout'] }));
  afterEach(() => mock.timers.reset());

  it('terminates the thread that runs the cancelled task, after the grace period', () => {
    const { cancel, enter, running, terminated, isTerminated } = watch();
    enter(3);
    cancel(3);
    mock.timers.tick(GRACE_MS - 1);
    expect(terminated).to.deep.equal([]);
    mock.timers.tick(1);
    expect(terminated).to.deep.equal([1]);
    expect([...running]).to.deep.equal([0, TERMINATED]);
    expect(isTerminated()).to.equal(true);
  });

  it('waits for the start of a task that its thread has only claimed', () => {
    const { cancel, enter, terminated } = watch();
    cancel(0);
    mock.timers.tick(GRACE_MS + 50);
    expect(terminated).to.deep.equal([]);
    enter(0);
    mock.timers.tick(10);
    expect(terminated).to.deep.equal([1]);
  });

  it('terminates nothing once another task runs, rows are stored, or the batch has ended', () => {
    for (const next of [4, 5]) {
      const { cancel, enter, running, terminated } = watch();
      enter(3);
      cancel(3);
      enter(next);
      mock.timers.tick(1000);
      expect(terminated).to.deep.equal([]);
      expect(running[1]).to.equal(next);
    }
    const { cancel, enter, end, running, terminated, isTerminated } = watch();
    enter(3);
    cancel(3);
    end();
    mock.timers.tick(1000);
    expect([terminated, running[1], isTerminated()]).to.deep.equal([[], 3, false]);
  });

  it('terminates once, however often and whichever tasks are cancelled', () => {
    const { cancel, enter, terminated } = watch();
    enter(1);
    for (const index of [0, 1, 1]) cancel(index);
    mock.timers.tick(1000);
    expect(terminated).to.deep.equal([1]);
  });
});

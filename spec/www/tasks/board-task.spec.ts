import { expect } from 'chai';
import type { TaskEvent } from '../../../www/client/task-state.ts';
import { afterEvent, afterListing, type BoardTask } from '../../../www/tasks/board-task.ts';

const listed: BoardTask = { id: 'a', action: 'resize', state: 'queued', payload: '{}', accepted_at_ms: 5_000 };

describe('a task on the board', () => {
  it('keeps its action after an event without one, and has a placeholder until it is listed', () => {
    expect(afterEvent(listed, { event: 'started', id: 'a', at: 1, attempt: 1 })?.action).to.equal('resize');
    const unlisted = afterEvent(undefined, { event: 'started', id: 'a', at: 1, attempt: 1 });
    expect(unlisted?.action).to.equal('unknown');
    expect(afterListing(unlisted, listed, true)).to.include({ ...listed, state: 'running', attempt: 1 });
  });

  it('ignores an event that only newer nodes report', () => {
    const unknown = { event: 'archived', id: 'a', at: 1 } as unknown as TaskEvent;
    expect(afterEvent(listed, unknown)).to.equal(listed);
  });

  it('keeps its state when another node reports its acceptance late', () => {
    const accepted = { event: 'accepted', id: 'a', action: 'resize', at: 2 } as const;
    for (const event of ['started', 'retrying', 'completed', 'cancelled'] as const) {
      const task = afterEvent(undefined, { event, id: 'a', at: 1, attempts: 1 } as TaskEvent);
      expect(task && afterEvent(task, accepted), event).to.deep.equal({ ...task, action: 'resize', accepted_at_ms: 2 });
    }
  });

  it('is scheduled until it starts, and keeps the time of its acceptance if it is run before its time', () => {
    const scheduled = afterEvent(undefined, { event: 'scheduled', id: 'a', action: 'resize', at: 5, run_at_ms: 9 });
    expect(scheduled).to.deep.equal({ id: 'a', action: 'resize', state: 'scheduled', accepted_at_ms: 5, run_at_ms: 9 });
    const queued = afterEvent(scheduled, { event: 'accepted', id: 'a', at: 7 });
    expect(queued).to.deep.equal({ id: 'a', action: 'resize', state: 'queued', accepted_at_ms: 5 });
    expect(afterEvent(scheduled, { event: 'started', id: 'a', at: 9, attempt: 1 })).to.not.have.property('run_at_ms');
  });

  it('takes exact times from events, and all else from a listing that is newer', () => {
    const known = afterEvent(undefined, { event: 'accepted', id: 'a', action: 'resize', at: 5_321 });
    const completed: BoardTask = { ...listed, state: 'completed', result: '1', ended_at_ms: 6_000 };
    expect(afterListing(known, completed, false)).to.deep.equal({ ...completed, accepted_at_ms: 5_321 });
  });
});

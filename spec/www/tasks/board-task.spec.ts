import { expect } from 'chai';
import { afterEvent, afterListing, type BoardTask } from '../../../www/tasks/board-task.ts';

const listed: BoardTask = { id: 'a', action: 'resize', state: 'queued', payload: '{}', acceptedAtMs: 5_000 };

describe('a task on the board', () => {
  it('keeps its action after an event without one, and has a placeholder until it is listed', () => {
    expect(afterEvent(listed, { event: 'started', id: 'a', at: 1 })?.action).to.equal('resize');
    const unlisted = afterEvent(undefined, { event: 'started', id: 'a', at: 1 });
    expect(unlisted?.action).to.equal('unknown');
    expect(afterListing(unlisted, listed, true)).to.deep.equal({ ...listed, state: 'running', startedAtMs: 1 });
  });

  it('takes exact times from events, and all else from a listing that is newer', () => {
    const known = afterEvent(undefined, { event: 'accepted', id: 'a', action: 'resize', at: 5_321 });
    const completed: BoardTask = { ...listed, state: 'completed', result: '1', endedAtMs: 6_000 };
    expect(afterListing(known, completed, false)).to.deep.equal({ ...completed, acceptedAtMs: 5_321 });
  });
});

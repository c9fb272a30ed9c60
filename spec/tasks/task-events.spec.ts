import { expect } from 'chai';
import { type Cursor, TaskEvents } from '../../main/tasks/task-events.ts';
import { systemRandom } from '../../workers/shared/clock.ts';
import { liveHeapBytes } from '../support/heap.ts';
import { ManualClock } from '../support/manual-clock.ts';

const MIB = 1024 * 1024;

function create(clock = new ManualClock(), onFollow?: (isFollowing: boolean) => void): TaskEvents {
  return new TaskEvents({ clock, random: systemRandom, follow: onFollow });
}

function note(events: TaskEvents, ...ids: (string | number)[]): void {
  for (const id of ids) events.record({ event: 'completed', id: String(id), at: 1 });
}

/** Returns the task ids of all events after a cursor. */
function rest(events: TaskEvents, cursor: Cursor): string[] {
  const ids: string[] = [];
  for (let event = events.next(cursor); event !== undefined; event = events.next(cursor))
    ids.push('id' in event ? event.id : event.event);
  return ids;
}

/** Follows the events until the end of the test. */
function follow(events: TaskEvents): { woken: () => number; leave: () => void } {
  let count = 0;
  const leave = events.subscribe(
    () => count++,
    () => {},
  );
  return { woken: () => count, leave };
}

describe('the events of tasks', () => {
  it('reach every follower, each at its own pace', () => {
    const events = create();
    const { woken } = follow(events);
    const [one, other] = [events.now(), events.now()];
    note(events, 'a', 'b');
    expect(rest(events, one)).to.deep.equal(['a', 'b']);
    note(events, 'c');
    expect(woken()).to.equal(3);
    expect(rest(events, one)).to.deep.equal(['c']);
    expect(rest(events, other)).to.deep.equal(['a', 'b', 'c']);
    expect(events.skipMissed(other)).to.equal(0);
  });

  it('go on after the one that was seen last', () => {
    const events = create();
    follow(events);
    const cursor = events.now();
    note(events, 'a', 'b', 'c');
    events.next(cursor);
    const id = events.idOf(cursor);
    expect(rest(events, events.after(id) as Cursor)).to.deep.equal(['b', 'c']);
  });

  it('are not known by the id of another process, or of no event at all', () => {
    const events = create();
    note(events, 'a');
    const foreign = create();
    note(foreign, 'a');
    expect(events.after(foreign.idOf(foreign.now()))).to.equal(undefined);
    const [epoch] = events.idOf(events.now()).split('-');
    for (const id of ['', '1', 'x-1', `${epoch}-2`, `${epoch}--1`, `${epoch}-1e0`, `${epoch}-`]) {
      expect(events.after(id), id).to.equal(undefined);
    }
    expect(events.after(`${epoch}-1`)).to.deep.equal({ seen: 1 });
  });

  it('are bounded, and a follower that is further behind learns how many it missed', () => {
    const events = create();
    follow(events);
    const cursor = events.now();
    note(events, ...Array(10_000).keys());
    expect(events.skipMissed({ ...cursor })).to.equal(0);
    note(events, 'x', 'y');
    expect(events.skipMissed(cursor)).to.equal(2);
    const ids = rest(events, cursor);
    expect(ids).to.have.length(10_000);
    expect([ids[0], ids.at(-1)]).to.deep.equal(['2', 'y']);
  });

  it('use a bounded amount of memory', async () => {
    const events = create();
    follow(events);
    note(events, ...Array(10_000).keys());
    const before = await liveHeapBytes();
    for (let i = 0; i < 90_000; i++) note(events, i);
    expect((await liveHeapBytes()) - before).to.be.below(MIB);
  });

  it('release the memory of a wait that has ended', async () => {
    const events = create();
    const wait = (id: string) => {
      const { promise, resolve } = Promise.withResolvers<void>();
      const remove = events.onEnd(id, resolve);
      note(events, id);
      remove();
      return promise;
    };
    // Fills the window of kept events first.
    for (let i = 0; i < 10_000; i++) await wait(String(i));
    const before = await liveHeapBytes();
    for (let i = 0; i < 20_000; i++) await wait(String(i));
    expect((await liveHeapBytes()) - before).to.be.below(MIB);
  });

  it('end the wait for a task, whatever its id is', () => {
    const events = create();
    const ids = ['error', 'newListener', 'removeListener', ''];
    note(events, ...ids);
    const ended: string[] = [];
    const removals = ids.map((id) => events.onEnd(id, () => ended.push(id)));
    expect(ended).to.deep.equal([]);
    for (const [index, id] of ids.entries()) {
      note(events, id);
      expect(ended).to.deep.equal(ids.slice(0, index + 1));
    }
    for (const remove of removals) remove();
  });

  it('are counted and not kept without a follower', () => {
    const events = create();
    const before = events.now();
    note(events, 'a', 'b');
    follow(events);
    note(events, 'c');
    expect(events.skipMissed(before)).to.equal(2);
    expect(rest(events, before)).to.deep.equal(['c']);
  });

  it('are kept for a minute after the last one has gone, should it come back', () => {
    const clock = new ManualClock();
    const events = create(clock);
    const { leave } = follow(events);
    const cursor = events.now();
    leave();
    expect(events.subscribers).to.equal(0);
    note(events, 'a');
    clock.advance(59_000);
    const again = follow(events);
    expect(events.skipMissed(cursor)).to.equal(0);
    expect(rest(events, cursor)).to.deep.equal(['a']);
    // Events are kept as long as there is a follower.
    clock.advance(60_000);
    note(events, 'b');
    expect(rest(events, cursor)).to.deep.equal(['b']);
    again.leave();
    note(events, 'c');
    clock.advance(60_000);
    note(events, 'd');
    expect(events.skipMissed(cursor)).to.equal(1);
    follow(events);
    expect(events.skipMissed(cursor)).to.equal(1);
  });

  it('tell the end of a completed, discarded or cancelled task, and of no other', () => {
    const events = create();
    const over: string[] = [];
    const removers = ['a', 'b', 'b', 'c', 'd'].map((id) => events.onEnd(id, () => over.push(id)));
    events.record({ event: 'started', id: 'c', at: 1, attempt: 1 });
    events.record({ event: 'completed', id: 'b', at: 1 });
    events.record({ event: 'failed', id: 'a', at: 1, attempts: 1, reason: 'no' });
    events.record({ event: 'cancelled', id: 'd', at: 1 });
    expect(over).to.deep.equal(['b', 'b', 'a', 'd']);
    for (const remove of removers) remove();
    events.record({ event: 'completed', id: 'c', at: 1 });
    expect(over).to.have.length(4);
  });

  it('are followed on other nodes from the first follower or wait until a minute after the last', () => {
    const clock = new ManualClock();
    const followed: boolean[] = [];
    const events = create(clock, (isFollowing) => followed.push(isFollowing));
    const { leave } = follow(events);
    const remove = events.onEnd('a', () => {});
    leave();
    clock.advance(60_000);
    expect(followed).to.deep.equal([true]);
    remove();
    clock.advance(59_999);
    events.onEnd('b', () => {})();
    clock.advance(59_999);
    expect(followed).to.deep.equal([true]);
    clock.advance(1);
    expect(followed).to.deep.equal([true, false]);
    follow(events);
    expect(followed).to.deep.equal([true, false, true]);
  });

  it('end at once for a follower that comes too late', async () => {
    const events = create();
    events.close();
    await new Promise<void>((end) => {
      events.subscribe(() => {}, end);
    });
    expect(events.subscribers).to.equal(0);
  });

  it('end for all when they are closed', () => {
    const events = create();
    let ended = 0;
    events.subscribe(
      () => {},
      () => ended++,
    );
    events.onEnd('a', () => ended++);
    events.close();
    expect(ended).to.equal(2);
    events.onEnd('b', () => ended++);
    expect(ended).to.equal(3);
  });
});

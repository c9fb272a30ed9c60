import { expect } from 'chai';
import { type Cursor, TaskEvents } from '../../main/tasks/task-events.ts';
import { systemRandom } from '../../workers/shared/clock.ts';
import { ManualClock } from '../support/manual-clock.ts';
import { liveHeapBytes } from '../support/proc.ts';

const ignore = () => {};

const create = (clock = new ManualClock(), onFollow?: (isFollowing: boolean) => void) =>
  new TaskEvents({ clock, random: systemRandom, follow: onFollow });

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

const follow = (events: TaskEvents) => events.subscribe(ignore, ignore);

describe('the events of tasks', () => {
  it('use a bounded amount of memory, also for waits that have ended, and none a minute after the last follower', async () => {
    const clock = new ManualClock();
    const events = create(clock);
    const leave = follow(events);
    const waitFor = async (count: number) => {
      for (const number of Array(count).keys()) {
        const id = `${number}`.padEnd(200);
        const { promise, resolve } = Promise.withResolvers<void>();
        const remove = events.onEnd(id, resolve);
        note(events, id);
        remove();
        await promise;
      }
    };
    // Fills the window of kept events first.
    await waitFor(10_000);
    const before = await liveHeapBytes();
    await waitFor(30_000);
    expect((await liveHeapBytes()) - before).to.be.below(1024 * 1024);
    leave();
    clock.advance(60_000);
    expect(before - (await liveHeapBytes())).to.be.above(2 * 1024 * 1024);
    expect(events.subscribers, 'not collected itself').to.equal(0);
  });

  it('are kept while there is a follower and for a minute after it, otherwise only counted', () => {
    const clock = new ManualClock();
    const events = create(clock);
    const before = events.now();
    note(events, 'counted', 'only');
    const leave = follow(events);
    expect(events.skipMissed(before)).to.equal(2);
    const cursor = events.now();
    leave();
    expect(events.subscribers).to.equal(0);
    note(events, 'a');
    clock.advance(59_000);
    const leaveAgain = follow(events);
    expect([events.skipMissed(cursor), rest(events, cursor)]).to.deep.equal([0, ['a']]);
    // Events are kept as long as there is a follower.
    clock.advance(60_000);
    note(events, 'b');
    expect(rest(events, cursor)).to.deep.equal(['b']);
    leaveAgain();
    note(events, 'c');
    clock.advance(60_000);
    note(events, 'd');
    follow(events);
    note(events, 'e');
    expect([events.skipMissed(cursor), rest(events, cursor)]).to.deep.equal([2, ['e']]);
  });

  it('are followed on other nodes from the first follower or wait until a minute after the last', () => {
    const clock = new ManualClock();
    const followed: boolean[] = [];
    const events = create(clock, (isFollowing) => followed.push(isFollowing));
    const leave = follow(events);
    const remove = events.onEnd('a', ignore);
    for (const _ of [1, 2]) leave();
    clock.advance(60_000);
    expect(followed).to.deep.equal([true]);
    remove();
    clock.advance(59_999);
    events.onEnd('b', ignore)();
    clock.advance(59_999);
    expect(followed).to.deep.equal([true]);
    clock.advance(1);
    expect(followed).to.deep.equal([true, false]);
    follow(events);
    expect(followed).to.deep.equal([true, false, true]);
  });

  it('end at once for followers and waits after the close', async () => {
    const events = create();
    events.close();
    // Only after `subscribe` has returned.
    await new Promise<void>((resolve) => {
      const leaveLate = events.subscribe(ignore, () => resolve(leaveLate()));
    });
    await new Promise<void>((resolve) => events.onEnd('a', resolve));
  });
});

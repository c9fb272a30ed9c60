import { mock } from 'node:test';
import { expect } from 'chai';
import { type Cursor, TaskEvents } from '../../main/tasks/task-events.ts';
import { afterTest } from '../support/cleanup.ts';
import { liveHeapBytes } from '../support/heap.ts';

const MIB = 1024 * 1024;

function create(): TaskEvents {
  const events = new TaskEvents();
  afterTest(() => events.close());
  return events;
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
  afterEach(() => mock.timers.reset());

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
    const wait = async (id: string) => {
      const { ended } = events.waitForEnd(id, 60_000);
      note(events, id);
      await ended;
    };
    await wait('first');
    const before = await liveHeapBytes();
    for (let i = 0; i < 10_000; i++) await wait(String(i));
    expect((await liveHeapBytes()) - before).to.be.below(MIB);
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
    mock.timers.enable({ apis: ['setTimeout'] });
    const events = create();
    const { leave } = follow(events);
    const cursor = events.now();
    leave();
    expect(events.subscribers).to.equal(0);
    note(events, 'a');
    mock.timers.tick(59_000);
    const again = follow(events);
    expect(events.skipMissed(cursor)).to.equal(0);
    expect(rest(events, cursor)).to.deep.equal(['a']);
    // Events are kept as long as there is a follower.
    mock.timers.tick(60_000);
    note(events, 'b');
    expect(rest(events, cursor)).to.deep.equal(['b']);
    again.leave();
    note(events, 'c');
    mock.timers.tick(60_000);
    note(events, 'd');
    expect(events.skipMissed(cursor)).to.equal(1);
    follow(events);
    expect(events.skipMissed(cursor)).to.equal(1);
  });

  it('end the wait for a completed or discarded task, and no other wait', async () => {
    const events = create();
    const over: string[] = [];
    const wait = (id: string) => events.waitForEnd(id, 60_000).ended.then(() => over.push(id));
    const waits = [wait('a'), wait('b'), wait('b'), wait('c')];
    events.record({ event: 'started', id: 'c', at: 1, attempt: 1 });
    events.record({ event: 'completed', id: 'b', at: 1 });
    await Promise.all(waits.slice(1, 3));
    events.record({ event: 'failed', id: 'a', at: 1, attempts: 1, reason: 'no' });
    await waits[0];
    expect(over).to.deep.equal(['b', 'b', 'a']);
    events.close();
    await waits[3];
  });

  it('end a wait at its timeout, or when the client is gone', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    const events = create();
    let over = false;
    const timed = events.waitForEnd('a', 1000).ended.then(() => {
      over = true;
    });
    mock.timers.tick(999);
    await new Promise(setImmediate);
    expect(over).to.equal(false);
    mock.timers.tick(1);
    await timed;
    const { ended, cancel } = events.waitForEnd('a', 1000);
    cancel();
    await ended;
  });

  it('end at once for a follower that comes too late', async () => {
    const events = new TaskEvents();
    events.close();
    await new Promise<void>((end) => {
      events.subscribe(() => {}, end);
    });
    expect(events.subscribers).to.equal(0);
  });

  it('end for all when they are closed', async () => {
    const events = new TaskEvents();
    let ended = 0;
    events.subscribe(
      () => {},
      () => ended++,
    );
    events.close();
    expect(ended).to.equal(1);
    await events.waitForEnd('a', 60_000).ended;
  });
});

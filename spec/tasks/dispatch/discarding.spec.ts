import { mock } from 'node:test';
import { expect } from 'chai';
import { DiscardCheck } from '../../../main/tasks/dispatch/discard-check.ts';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import { lettersOf } from '../../drivers/inbox.ts';
import { captureLog } from '../../support/log.ts';
import { crashed, raisedForGood, returned, startDispatching } from './dispatching.ts';
import { HandDrivenPool } from './hand-driven-pool.ts';

/** Opens a queue whose messages a, b, … are suspects with these numbers of attempts and crashes. */
function recovered(...messages: { attempts: number; crashes: number }[]) {
  const entries = messages.map(({ attempts, crashes }, index) => {
    const id = 'abc'.charAt(index);
    const order = { sequence: index + 1, position: index + 1 };
    return {
      id,
      body: id,
      ...order,
      bytes: 1,
      reason: null,
      history: [],
      dueAt: 0,
      acceptedAt: 1,
      attempts,
      crashes,
      suspect: true,
    };
  });
  const snapshot = { messages: entries, deadLetters: [], keys: [], paused: false };
  return new LocalQueue({ maxLength: 10, maxBytes: 100, maxKeys: 10 }, { snapshot });
}

describe('Dispatcher, with a task that has no attempts left', () => {
  afterEach(() => mock.timers.reset());

  it('discards it without running it, with the attempts that it had', async () => {
    const queue = recovered({ attempts: 2, crashes: 2 }, { attempts: 5, crashes: 1 }, { attempts: 1, crashes: 1 });
    const { pool, reach } = startDispatching(new HandDrivenPool(), { queue });
    (await pool.given(1)).end(returned);
    await reach(({ dead, completed }) => dead === 2 && completed === 1);
    expect(pool.bodies).to.deep.equal(['c']);
    const letters = await lettersOf(queue);
    expect(letters.map(({ id, attempts }) => [id, attempts])).to.deep.equal([
      ['a', 2],
      ['b', 5],
    ]);
    for (const { reason } of letters) expect(reason).to.match(/^the process died while the task was running/);
  });
});

describe('Dispatcher, with a task that crashed too often', () => {
  afterEach(() => mock.timers.reset());

  const crashTwice = async (isStored: (id: string) => boolean) => {
    const dispatching = startDispatching(new HandDrivenPool(), { isStored });
    await dispatching.publish('a');
    (await dispatching.pool.given(1)).end(crashed);
    (await dispatching.pool.given(2)).end({ ...crashed, reason: 'took longer than 5 ms' });
    return dispatching;
  };

  it('completes it when it has a row: its thread died afterwards', async () => {
    const asked: string[] = [];
    const { reach, pool } = await crashTwice((id) => asked.push(id) > 0);
    expect(await reach(({ completed }) => completed === 1)).to.include({ dead: 0, delayed: 0, inFlight: 0 });
    expect(asked).to.deep.equal(['a']);
    expect(pool.runs).to.have.length(2);
  });

  it('looks it up again, and does not run it again, after a failed lookup; reason and attempts stay', async () => {
    mock.timers.enable({ apis: ['setTimeout'] });
    let lookups = 0;
    const { reach, pool, lines, queue, publish } = startDispatching(new HandDrivenPool(), {
      isStored: () => {
        if (++lookups <= 2) throw new Error('no database');
        return false;
      },
    });
    await publish('a');
    (await pool.given(1)).end(crashed);
    await reach(({ delayed }) => delayed === 1);
    mock.timers.tick(1);
    (await pool.given(2)).end({ ...crashed, reason: 'took longer than 5 ms' });
    for (const count of [1, 2]) {
      await reach(({ delayed }) => delayed === 1 && lookups === count);
      expect(lines.at(-1)).to.include({ level: 50, task: 'a' });
      mock.timers.tick(1000);
    }
    await reach(({ dead }) => dead === 1);
    expect(lookups).to.equal(3);
    expect(pool.runs).to.have.length(2);
    expect((await lettersOf(queue))[0]).to.include({ attempts: 2, reason: 'took longer than 5 ms' });
    expect(lines.at(-1)).to.include({ decision: 'discard', failure: 'crash', attempt: 2 });
  });

  it('forgets the discard of a task that another node has tried since', async () => {
    const check = new DiscardCheck(() => Promise.reject(new Error('no database')), captureLog().log);
    const delivery = {
      message: { id: 'a', body: 'a' },
      sequence: 1,
      acceptedAt: 1,
      attempt: 2,
      crashes: 1,
      suspect: false,
    };
    const discard = { kind: 'discard', attempts: 2, reason: 'thread died', failure: 'crash' } as const;
    expect(await check.settle(delivery, discard)).to.include({ kind: 'snooze', reason: 'thread died' });
    expect(check.takePostponed({ ...delivery, attempt: 1 })).to.equal(undefined);
    expect(check.takePostponed(delivery)).to.equal(undefined);
  });

  it('looks it up after another failure, too, once its thread or its process has died', async () => {
    const { pool, publish, reach } = startDispatching(new HandDrivenPool(), {
      queue: recovered({ attempts: 0, crashes: 0 }),
      isStored: () => true,
    });
    (await pool.given(1)).end(raisedForGood);
    await reach(({ completed }) => completed === 1);
    await publish('b', 'c');
    (await pool.given(2)).end(crashed);
    (await pool.given(3)).end(raisedForGood);
    (await pool.given(4)).end(raisedForGood);
    // `c`, which never crashed, is discarded without a lookup of its row.
    expect(await reach(({ completed }) => completed === 2)).to.include({ dead: 1 });
  });
});

import { mock } from 'node:test';
import { setImmediate } from 'node:timers/promises';
import { expect } from 'chai';
import type { DueSchedule, Firing } from '../../../db/schedules.ts';
import { Queue } from '../../../main/tasks/queue.ts';
import { type CompleteDefinition, readDefinition } from '../../../main/tasks/schedules/definition.ts';
import { Scheduler } from '../../../main/tasks/schedules/scheduler.ts';
import { complete } from '../../store/settlements.ts';
import { messageOf } from '../../store/stage.ts';
import { afterTest } from '../../support/cleanup.ts';
import { captureLog } from '../../support/log.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { openFreshStore } from '../../support/store.ts';
import { until } from '../../support/until.ts';

const MINUTE = 60_000;
const HOUR = 60 * MINUTE;
const START = Date.parse('2026-01-01T00:00:30Z');

function definition(fields: object = {}): CompleteDefinition {
  return readDefinition('s', { cron: '* * * * *', action: 'sum', ...fields }, START, []);
}

/** Opens a store and a queue, and starts a scheduler, all with a clock of the spec. */
async function open({ maxLength = 1000, isShared = false } = {}) {
  const clock = new ManualClock(START);
  const bounds = { maxLength, maxBytes: 1_000_000, maxKeys: 100 };
  const store = await openFreshStore({ now: () => clock.now(), bounds });
  const events: string[] = [];
  const queue = await Queue.open({ store, onEvent: ({ event }) => events.push(event), clock });
  Object.defineProperty(store, 'isShared', { value: isShared });
  const { log, lines } = captureLog();
  let ids = 0;
  const newScheduler = () => new Scheduler({ queue, actions: new Map(), newTaskId: () => `${++ids}`, clock, log });
  let scheduler = newScheduler();
  afterTest(() => scheduler.stop());
  /** Waits until the scheduler has looked, and waits for its timer. */
  const idle = () => until(() => clock.timers === 1);
  const restart = async (downtimeMs = 0, module?: ReadonlyMap<string, CompleteDefinition>) => {
    await scheduler.stop();
    clock.advance(downtimeMs);
    scheduler = newScheduler();
    await scheduler.start(module);
    await idle();
  };
  /** Lets time pass as it passes for a process that runs. */
  const pass = async (ms: number, step = 1000) => {
    for (let passed = 0; passed < ms; passed += step) {
      clock.advance(step);
      await idle();
    }
  };
  /** Lets time pass. Returns the times of acceptance of the tasks since the last call, which are completed. */
  const made = async (ms = 0, step?: number) => {
    await pass(ms, step);
    const { deliveries } = await queue.take(1000, true);
    for (const { body, id, dueAt } of deliveries)
      expect(JSON.parse(body)).to.include({ id, action: 'sum', created_at: Math.floor(dueAt / 1000) });
    await queue.settle(deliveries.map((delivery) => ({ delivery, settlement: complete() })));
    return deliveries.map(({ dueAt }) => Math.floor((dueAt - START) / 1000));
  };
  const put = async (fields: object = {}, name = 's') => {
    await scheduler.put(name, definition(fields), 'api');
    await idle();
  };
  await restart();
  const found = () => store.schedules.find('s');
  return { clock, store, queue, events, lines, restart, scheduler, pass, made, put, found };
}

describe('the scheduler', () => {
  it('makes a task at each time', async () => {
    const { put, pass, made, found, events } = await open();
    await put();
    await pass(29_000);
    expect(events).to.deep.equal([]);
    await pass(1000 + 2 * MINUTE);
    expect(events).to.deep.equal(['accepted', 'accepted', 'accepted']);
    expect(await found()).to.include({ lastAt: START + 150_000, lastTask: '3' });
    expect(await made()).to.deep.equal([30, 90, 150]);
  });

  it('after a change, repeats no time that another node, whose clock is ahead, has fired', async () => {
    const { put, store, found } = await open();
    await put();
    const dueAt = START + 30_000;
    const task = { at: dueAt, message: messageOf('a') };
    const stored = (await found()) as DueSchedule;
    const fired = { ...stored, dueAt, nextAt: dueAt + MINUTE, task, isExclusive: false };
    expect(await store.schedules.fire(fired, () => {})).to.equal('fired');
    await put({ time_zone: 'Europe/Berlin' });
    expect(await found()).to.include({ nextAt: dueAt + MINUTE });
  });

  it('makes tasks in the time zone of the schedule, also after a change of the zone alone', async () => {
    const { put, made, found } = await open();
    for (const time_zone of ['UTC', 'Asia/Kolkata']) await put({ cron: '0 3 * * *', time_zone });
    const nextAt = Date.parse('2026-01-01T21:30:00Z');
    expect(await found()).to.include({ nextAt });
    expect(await made(24 * HOUR, HOUR)).to.have.length(1);
    expect(await found()).to.include({ nextAt: nextAt + 24 * HOUR });
  });

  it('sleeps until the first time, and looks again if a schedule is stored while it looks', async () => {
    const { put, clock, made, store, scheduler } = await open();
    const firstDue = store.schedules.firstDue.bind(store.schedules);
    mock.method(store.schedules, 'firstDue', async (limit: number) => {
      const due = await firstDue(limit);
      if (due.length === 1) await scheduler.put('sooner', definition({ cron: '45 * * * * *' }), 'api');
      return due;
    });
    await put({ cron: '0 3 * * *' }, 'later');
    clock.advance(14_999);
    expect([clock.timers, await made(), await made(1, 1)]).to.deep.equal([1, [], [15]]);
    expect(await made(3 * HOUR, MINUTE)).to.have.length(181);
  });

  it('finds out within a minute that the machine has slept until after a time', async () => {
    const { put, clock, made } = await open();
    await put({ cron: '0 3 * * *' });
    clock.jump(4 * HOUR);
    expect(await made(MINUTE, MINUTE)).to.have.length(1);
  });

  for (const [catch_up, missed, expected] of [
    ['none', HOUR, 0],
    ['one', HOUR, 1],
    ['all', HOUR, 60],
    ['all', 3 * HOUR, 100],
  ] as const) {
    it(`with catch_up ${catch_up} runs ${expected} of ${missed / MINUTE} missed times after a downtime`, async () => {
      const { put, restart, made, found } = await open();
      await put({ catch_up });
      await restart(missed);
      expect(await made()).to.have.length(expected);
      const lastAt = expected > 0 ? START + missed - 30_000 : null;
      expect(await found()).to.include({ lastAt, nextAt: START + missed + 30_000 });
      expect(await made(MINUTE)).to.have.length(1);
    });
  }

  it('runs each time of which it is late by seconds, and treats others as missed', async () => {
    for (const [catch_up, expected] of Object.entries({ none: 11, one: 12, all: 100 })) {
      const { put, made } = await open();
      await put({ cron: '* * * * * *', catch_up });
      expect(await made(5000, 5000), catch_up).to.have.length(5);
      expect(await made(101_000, 101_000), catch_up).to.have.length(expected);
    }
  });

  it('tries again each second while the queue is full, or the store fails, and logs it once', async () => {
    const { put, queue, pass, made, lines, store, scheduler, found } = await open({ maxLength: 1 });
    const body = JSON.stringify({ id: 'x', action: 'sum', created_at: START / 1000 });
    await queue.publish({ id: 'x', action: 'sum', body });
    await put();
    await pass(35_000);
    expect(await found()).to.include({ nextAt: START + 30_000 });
    expect([scheduler.count, scheduler.overdueMs]).to.deep.equal([1, 5000]);
    expect([await made(), await made(1000), scheduler.overdueMs]).to.deep.equal([[0], [36], 0]);
    const { firstDue } = store.schedules;
    store.schedules.firstDue = (limit) => expect.fail(`first ${limit}`);
    await pass(56_000);
    store.schedules.firstDue = firstDue;
    expect(await made(1000)).to.deep.equal([93]);
    expect(lines[0]).to.have.property('msg', 'a schedule cannot make its task: trying again every second');
    expect(lines.map(({ err }) => (err as Error).message)).to.deep.equal(['the queue holds 1 messages', 'first 100']);
  });

  it('fires no time before a new schedule is written, although its process stood still until then', async () => {
    const { scheduler, clock, store, found } = await open();
    const { schedules } = store;
    const find = schedules.find.bind(schedules);
    schedules.find = async (name) => {
      clock.advance(HOUR);
      return await find(name);
    };
    await scheduler.put('s', definition(), 'api');
    schedules.find = find;
    expect(await found()).to.include({ nextAt: START + HOUR + 30_000 });
  });

  it('fires nothing after its stop, which waits for what is being fired', async () => {
    const { put, clock, scheduler, store, events } = await open();
    for (const name of 'st') await put({ cron: '* * * * * *' }, name);
    const { promise, resolve } = Promise.withResolvers<void>();
    const firing = mock.method(store.schedules, 'fire', async ({ name }: Firing) => {
      if (name === 't') throw new Error('no database');
      await promise;
      events.push('fired');
      return 'fired';
    });
    clock.advance(5000);
    await until(() => firing.mock.callCount() === 2);
    void setImmediate().then(resolve);
    await scheduler.stop();
    clock.advance(HOUR);
    expect([clock.timers, events]).to.deep.equal([0, ['fired']]);
  });

  it('runs a time up to 10 s late at the start of a node of several only, because another one may have been retrying it', async () => {
    for (const [lateMs, isShared, expected] of [
      [9000, true, [39]],
      [11_000, true, []],
      [9000, false, []],
    ] as const) {
      const { put, restart, made } = await open({ isShared });
      await put({ catch_up: 'none' });
      await restart(30_000 + lateMs);
      expect(await made()).to.deep.equal(expected);
    }
  });

  it('replaces a schedule of the API, or one that has changed, by that of the module, which missed times use', async () => {
    const { put, restart, found, queue } = await open();
    await put();
    for (const data of [{ a: 1 }, { b: 2 }]) {
      await restart(HOUR, new Map([['s', definition({ data })]]));
      const stored = await found();
      expect([stored?.source, JSON.parse(stored?.definition ?? '').data]).to.deep.equal(['module', data]);
      const { deliveries } = await queue.take(9, true);
      expect(deliveries.map(({ body }) => JSON.parse(body).data)).to.deep.equal([data]);
    }
    await restart();
    expect(await found(), 'of a former module').to.equal(undefined);
  });
});

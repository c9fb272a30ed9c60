import { expect } from 'chai';
import { type Firing, MAX_SCHEDULES, type NewSchedule } from '../../db/schedules.ts';
import { QueueFull } from '../../db/task-store.ts';
import { complete, discard } from './settlements.ts';
import { errorOf, idsOf, messageOf, numbers, type QueueTests, START, type TestQueue } from './stage.ts';

export const schedule = (name: string, about: Partial<NewSchedule> = {}): NewSchedule => {
  return { name, definition: '{}', source: 'api', timing: 'daily', nextAt: START + 10, ...about };
};

/** Fires `s` at its first time for a message with this id. Returns the outcome and the ids that were reported as accepted. */
export async function fire({ store }: TestQueue, id: string | undefined, about: Partial<Firing> = {}) {
  const dueAt = about.dueAt ?? START + 10;
  const task = id === undefined ? undefined : { at: dueAt, message: { ...messageOf(id), schedule: 's' } };
  const firing = { name: 's', definition: '{}', dueAt, nextAt: START + 20, task, isExclusive: false, ...about };
  const told: (string | undefined)[] = [];
  return [await store.schedules.fire(firing, () => told.push(id)), ...told].join(' ');
}

const find = async ({ store }: TestQueue, name = 's') => store.schedules.find(name);

export function describeSchedules({ it, driver: { isDurable } }: QueueTests): void {
  it('schedules are listed by name, found, replaced and deleted, also after a restart', async (queue) => {
    const { schedules } = queue.store;
    for (const name of ['b', 'a', 'B']) expect(await schedules.put(schedule(name))).to.equal(true);
    await schedules.put(schedule('b', { definition: '{"cron":"é"}' }));
    await queue.restart();
    const { schedules: next } = queue.store;
    const listed = (await next.list()).map(({ id, bytes, source }) => `${id} ${bytes} ${source}`);
    expect(listed).to.deep.equal(['B 2 api', 'a 2 api', 'b 13 api']);
    const nothing = { source: 'api', nextAt: START + 10, lastAt: null, lastTask: null };
    expect(await find(queue, 'b')).to.deep.equal({ name: 'b', definition: '{"cron":"é"}', ...nothing });
    const deleted: boolean[] = [];
    for (const source of ['module', 'api', 'api'] as const) deleted.push(await next.delete('b', source));
    expect([deleted, await find(queue, 'b')]).to.deep.equal([[false, true, false], undefined]);
  });

  it('schedules keep their next time while their timing is the same', async (queue) => {
    for (const [timing, nextAt, kept = nextAt] of [
      ['daily', START + 10],
      ['daily', START + 30, START + 10],
      ['hourly', START + 30],
      ['', null],
      ['', null],
      ['hourly', START + 40],
    ] as const) {
      await queue.store.schedules.put(schedule('s', { timing, nextAt }));
      expect((await find(queue))?.nextAt).to.equal(kept);
    }
  });

  it(`schedules are at most ${MAX_SCHEDULES}, and those of the module are always added, and replace those of the API, not the other way round`, async (queue) => {
    const { schedules } = queue.store;
    const put = (names: string[]) => Promise.all(names.map((name) => schedules.put(schedule(name))));
    await put(numbers(MAX_SCHEDULES - 1));
    expect(await put(['x', 'y'])).to.deep.equal([true, false]);
    expect(await schedules.put(schedule('x', { definition: '2' })), 'a change').to.equal(true);
    expect(await schedules.put(schedule('x', { source: 'module', definition: '[]' }))).to.equal(true);
    expect(await schedules.put(schedule('x', { definition: '1' }))).to.equal(false);
    expect(await find(queue, 'x')).to.include({ source: 'module', definition: '[]' });
    expect([(await schedules.list()).length, await schedules.count()]).to.deep.equal([MAX_SCHEDULES, MAX_SCHEDULES]);
    expect(await schedules.put(schedule('y', { source: 'module' }))).to.equal(true);
  });

  it('schedules are due in the order of their times, without those that are paused', async (queue) => {
    for (const [name, nextAt] of Object.entries({ c: START + 30, a: START + 10, b: START + 20, d: null }))
      await queue.store.schedules.put(schedule(name, { nextAt }));
    const due = async (limit: number) => (await queue.store.schedules.firstDue(limit)).map(({ name }) => name).join('');
    expect([await due(2), await due(9)]).to.deep.equal(['ab', 'abc']);
  });

  it('schedules make a task and advance in one step, once for each time, also while the queue is paused', async (queue) => {
    await queue.store.schedules.put(schedule('s'));
    await queue.store.setPaused(true);
    const fired = await Promise.all([fire(queue, 'a'), fire(queue, 'b'), fire(queue, 'c')]);
    expect(fired.filter((each) => each !== 'changed')).to.have.length(1);
    expect(await find(queue)).to.include({ nextAt: START + 20, lastAt: START + 10 });
    await queue.expectCounts({ accepted: 1, waiting: 1 });
    await queue.store.setPaused(false);
    const [{ id, delivery }] = await queue.takeAll(1);
    expect([fired.includes(`fired ${id}`), delivery]).to.deep.equal([true, 1]);
    expect((await find(queue))?.lastTask).to.equal(id);
    expect(await queue.message(id)).to.include({ schedule: 's', state: 'running' });
    expect(await fire(queue, undefined, { dueAt: START + 20, nextAt: null })).to.equal('skipped');
    expect(await find(queue)).to.include({ nextAt: null, lastAt: START + 10, lastTask: id });
    expect(await fire(queue, 'd', { name: 'other' })).to.equal('changed');
  });

  it('schedules do not fire a time again after a restart, or the death of the process', async (queue) => {
    await queue.store.schedules.put(schedule('s'));
    await fire(queue, 'a');
    await (isDurable ? queue.die() : queue.restart());
    expect(await fire(queue, 'b')).to.equal('changed');
    expect(idsOf(await queue.takeAll(1))).to.equal('a');
    expect((await queue.message('a')).schedule).to.equal('s');
  });

  it('schedules do not fire a time twice, or a replaced definition, if a change that was computed before is written later', async (queue) => {
    await queue.store.schedules.put(schedule('s'));
    const later = { dueAt: START + 20, nextAt: START + 30 };
    expect(await fire(queue, 'a')).to.equal('fired a');
    expect(await fire(queue, 'b', later)).to.equal('fired b');
    await queue.store.schedules.put(schedule('s', { timing: 'hourly' }));
    expect([await fire(queue, 'c'), await fire(queue, 'd', later)]).to.deep.equal(['skipped', 'skipped']);
    expect(await find(queue)).to.include({ nextAt: START + 30, lastAt: START + 20, lastTask: 'b' });
    const [definition, due] = ['{"action":"reverse"}', { dueAt: START + 30, nextAt: START + 40 }];
    await queue.store.schedules.put(schedule('s', { timing: 'hourly', definition }));
    expect(await fire(queue, 'e', due)).to.equal('changed');
    expect(await fire(queue, 'f', { ...due, definition })).to.equal('fired f');
  });

  it('schedules stay due while the queue is full', async (queue) => {
    await queue.restart({ maxLength: 1 });
    await queue.store.schedules.put(schedule('s'));
    await queue.publish('x');
    await queue.unchanged(async () => expect(await errorOf(() => fire(queue, 'a'))).to.be.instanceOf(QueueFull));
    expect(await find(queue)).to.include({ nextAt: START + 10, lastTask: null });
    await queue.settle(await queue.next(), complete());
    expect(await fire(queue, 'a')).to.equal('fired a');
  });

  it('schedules skip a time while one of their tasks is unfinished, if they do not overlap', async (queue) => {
    await queue.store.schedules.put(schedule('s'));
    const at = (dueAt: number) => ({ dueAt, nextAt: dueAt + 10, isExclusive: true });
    expect(await fire(queue, 'a', at(START + 10))).to.equal('fired a');
    expect(await fire(queue, 'b', at(START + 20))).to.equal('skipped');
    await queue.publish('c', { schedule: 's' });
    await queue.settle(await queue.next(), complete());
    const running = await queue.next();
    expect(await fire(queue, 'd', at(START + 30))).to.equal('skipped');
    await queue.settle(running, discard());
    expect(await queue.message('c')).to.include({ schedule: 's', state: 'failed' });
    expect(await fire(queue, 'e', at(START + 40))).to.equal('fired e');
    await queue.expectCounts({ accepted: 3, completed: 1, dead: 1, waiting: 1 });
  });
}

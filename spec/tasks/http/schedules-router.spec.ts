import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard } from '../../store/settlements.ts';
import { startTasksServer } from './tasks-server.ts';

const nightly = { cron: '0 3 * * *', action: 'sum' };
const defaults = { time_zone: 'UTC', data: {}, priority: 3, catch_up: 'one', overlap: 'allow', paused: false };
const NIGHTLY = '/schedules/nightly';

describe('/schedules', () => {
  it('stores a schedule, answers it with its next five times, lists and deletes it', async () => {
    const { ask, store } = await startTasksServer();
    const [status, stored] = await ask(`PUT ${NIGHTLY}`, nightly);
    const { next, ...schedule } = stored;
    expect([status, schedule]).to.deep.equal([200, { name: 'nightly', ...nightly, ...defaults, source: 'api' }]);
    const days = Math.ceil((systemClock.now() / 1000 - 3 * 3600) / 86_400);
    expect(next[0] / 86_400 - 3 / 24).to.be.within(days - 1, days + 1);
    expect(next).to.deep.equal([0, 1, 2, 3, 4].map((day) => next[0] + day * 86_400));
    expect(await ask(`GET ${NIGHTLY}`)).to.deep.equal([200, stored]);
    const given = { ...defaults, time_zone: 'Europe/Berlin', data: { numbers: [1] }, priority: 1, catch_up: 'all' };
    const settings = { ...given, cron: '*/5 0 3 * * *', action: 'other', overlap: 'skip', paused: true };
    const [, paused] = await ask('PUT /schedules/b.-_9', settings);
    expect(paused).to.deep.equal({ name: 'b.-_9', ...settings, source: 'api', next: [] });
    expect(await ask('GET /schedules')).to.deep.equal([200, { schedules: [paused, stored], count: 2 }]);
    const [, resumed] = await ask('PUT /schedules/b.-_9', { ...paused, paused: false });
    const format = new Intl.DateTimeFormat('en-GB', { timeStyle: 'short', timeZone: 'Europe/Berlin' });
    const times = resumed.next.map((time: number) => format.format(time * 1000));
    expect(times, 'in its time zone').to.deep.equal(Array(5).fill('03:00'));
    expect(await ask(`DELETE ${NIGHTLY}`)).to.deep.equal([204, '']);
    store.schedules.delete = async () => false;
    for (const line of [`GET ${NIGHTLY}`, 'DELETE /schedules/b.-_9'])
      expect(await ask(line)).to.deep.equal([404, { error: 'schedule not found' }]);
  });

  it('runs a schedule on request, also one that is paused, and its tasks name it', async () => {
    const { ask, find, take, settle, submitTask, queue } = await startTasksServer();
    await ask(`PUT ${NIGHTLY}`, { ...nightly, data: { numbers: [2] }, priority: 2, paused: true });
    const [status, { id, ...answer }] = await ask(`POST ${NIGHTLY}/run`);
    expect([status, answer]).to.deep.equal([202, { status: 'queued' }]);
    expect(await find(id)).to.include({ status: 'queued', schedule: 'nightly', priority: 2 });
    const delivery = await take();
    expect(JSON.parse(delivery.body)).to.deep.include({ id, action: 'sum', data: { numbers: [2] } });
    await settle(delivery, discard());
    const failed = { id, status: 'failed', schedule: 'nightly' };
    expect(await find(id)).to.include(failed);
    expect((await ask('GET /dead-letters'))[1].dead_letters[0]).to.include(failed);
    expect(await find(await submitTask())).to.not.have.property('schedule');
    queue.publish = () => Promise.reject(new Error('away'));
    expect((await ask(`POST ${NIGHTLY}/run`))[0]).to.equal(500);
  });

  it('does not change the schedules of the module, but runs them, and refuses a schedule beyond the maximum number', async () => {
    const { ask, store } = await startTasksServer();
    const about = { source: 'module', timing: 'x', nextAt: 1_900_000_000_000 } as const;
    await store.schedules.put({ name: 'nightly', definition: JSON.stringify({ ...nightly, ...defaults }), ...about });
    const ofModule = [409, { error: 'schedule belongs to the handlers module' }];
    expect(await ask(`PUT ${NIGHTLY}`, nightly)).to.deep.equal(ofModule);
    expect(await ask(`DELETE ${NIGHTLY}`)).to.deep.equal(ofModule);
    expect((await ask(`GET ${NIGHTLY}`))[1]).to.include({ source: 'module' });
    expect((await ask(`POST ${NIGHTLY}/run`))[0]).to.equal(202);
    store.schedules.put = async () => false;
    expect(await ask('PUT /schedules/x', nightly)).to.deep.equal([409, { error: 'too many schedules' }]);
  });
});

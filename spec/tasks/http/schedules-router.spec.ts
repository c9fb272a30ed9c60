import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const nightly = { cron: '0 3 * * *', action: 'sum' };
const defaults = { time_zone: 'UTC', data: {}, priority: 3, catch_up: 'one', overlap: 'allow', paused: false };

const put = async ({ url }: TasksServer, name: string, body: unknown) => {
  const answer = await request(`${url}/schedules/${name}`, { method: 'PUT', body: JSON.stringify(body) });
  return { status: answer.status, body: answer.body };
};
const ask = async ({ url }: TasksServer, path: string, method = 'GET') => {
  const { status, body } = await request(`${url}/schedules${path}`, { method });
  return [status, body];
};
const notFound = [404, { error: 'schedule not found' }];
const ofModule = [409, { error: 'schedule belongs to the handlers module' }];

describe('/schedules', () => {
  it('stores a schedule, and answers it with its next five times', async () => {
    const server = await startTasksServer();
    const { status, body } = await put(server, 'nightly', nightly);
    const { next, ...schedule } = body;
    expect([status, schedule]).to.deep.equal([200, { name: 'nightly', ...nightly, ...defaults, source: 'api' }]);
    const now = systemClock.now() / 1000;
    expect(next).to.have.length(5);
    for (const [index, time] of next.entries()) {
      expect(time % 86_400).to.equal(3 * 3600);
      expect(time - now - index * 86_400).to.be.within(-1, 86_400);
    }
    expect(await ask(server, '/nightly')).to.deep.equal([200, body]);
    const given = { ...defaults, time_zone: 'Europe/Berlin', data: { numbers: [1] }, priority: 1, catch_up: 'all' };
    const settings = { ...given, cron: '*/5 0 3 * * *', action: 'other', overlap: 'skip', paused: true };
    const paused = (await put(server, 'b.-_9', settings)).body;
    expect(paused).to.deep.equal({ name: 'b.-_9', ...settings, source: 'api', next: [] });
    expect(await ask(server, '')).to.deep.equal([200, { schedules: [paused, body], count: 2 }]);
    const resumed = await put(server, 'b.-_9', { ...paused, paused: false });
    expect([resumed.status, resumed.body.next.length]).to.deep.equal([200, 5]);
  });

  it('deletes a schedule, and knows no others', async () => {
    const server = await startTasksServer();
    await put(server, 'nightly', nightly);
    expect((await ask(server, '/nightly', 'DELETE'))[0]).to.equal(204);
    for (const path of ['/nightly', '/x', '/%00', '/a%20b', `/${'x'.repeat(101)}`]) {
      expect(await ask(server, path), path).to.deep.equal(notFound);
      expect(await ask(server, path, 'DELETE'), path).to.deep.equal(notFound);
      expect(await ask(server, `${path}/run`, 'POST'), path).to.deep.equal(notFound);
    }
    expect(await ask(server, '')).to.deep.equal([200, { schedules: [], count: 0 }]);
  });

  it('runs a schedule on request, also one that is paused, and its tasks name it', async () => {
    const server = await startTasksServer();
    await put(server, 'nightly', { ...nightly, data: { numbers: [2] }, priority: 2, paused: true });
    const [status, body] = await ask(server, '/nightly/run', 'POST');
    expect([status, body]).to.deep.equal([202, { id: body.id, status: 'queued' }]);
    const find = () => server.find(body.id);
    expect(await find()).to.include({ status: 'queued', schedule: 'nightly', priority: 2 });
    const delivery = await server.take();
    expect(JSON.parse(delivery.body)).to.deep.include({ id: body.id, action: 'sum', data: { numbers: [2] } });
    await server.settle(delivery, discard());
    expect(await find()).to.include({ status: 'failed', schedule: 'nightly' });
    const { body: letters } = await request(`${server.url}/dead-letters`);
    expect(letters.dead_letters[0]).to.include({ id: body.id, schedule: 'nightly' });
    await server.submit('{"action":"sum"}');
    const [own] = await server.takeAll(1);
    expect((await request(`${server.tasksUrl}/${own?.id}`)).body).to.not.have.property('schedule');
  });

  it('does not change the schedules of the module, but runs them', async () => {
    const server = await startTasksServer();
    const definition = JSON.stringify({ ...nightly, ...defaults });
    const about = { source: 'module', timing: 'x', nextAt: 1_900_000_000_000 } as const;
    await server.store.schedules.put({ name: 'nightly', definition, ...about });
    expect(Object.values(await put(server, 'nightly', nightly))).to.deep.equal(ofModule);
    expect(await ask(server, '/nightly', 'DELETE')).to.deep.equal(ofModule);
    expect((await ask(server, '/nightly'))[1]).to.include({ source: 'module' });
    expect((await ask(server, '/nightly/run', 'POST'))[0]).to.equal(202);
  });

  it('refuses a run while the queue is full, and a schedule of which the store takes no more', async () => {
    const server = await startTasksServer({ maxLength: 1 });
    await put(server, 'nightly', nightly);
    expect((await ask(server, '/nightly/run', 'POST'))[0]).to.equal(202);
    expect(await ask(server, '/nightly/run', 'POST')).to.deep.equal([500, { error: 'failed to queue task' }]);
    server.store.schedules.put = async () => false;
    expect(await put(server, 'x', nightly)).to.deep.equal({ status: 409, body: { error: 'too many schedules' } });
  });

  const wrong: [fields: object, field: string, detail: string][] = [
    [{ cron: undefined }, 'cron', 'must have five fields, or six with seconds, in at most 256 characters'],
    [{ cron: 5 }, 'cron', 'must have five fields, or six with seconds, in at most 256 characters'],
    [{ cron: '@daily' }, 'cron', 'must have five fields, or six with seconds, in at most 256 characters'],
    [{ cron: '* * * *' }, 'cron', 'must have five fields, or six with seconds, in at most 256 characters'],
    [{ cron: '-1 * * * *' }, 'cron', 'has a wrong minute: -1'],
    [{ cron: '5 * * * * 9' }, 'cron', 'has a wrong day of week: 9'],
    [{ cron: '60 * * * *' }, 'cron', 'has a wrong minute: 60'],
    [{ cron: '0 0 31 2 *' }, 'cron', 'has no time'],
    [{ time_zone: 'Mars/Base' }, 'time_zone', 'must be an IANA time zone'],
    [{ time_zone: '+02:00' }, 'time_zone', 'must be an IANA time zone'],
    [{ time_zone: null }, 'time_zone', 'must be an IANA time zone'],
    [{ catch_up: 'two' }, 'catch_up', 'must be none or one or all'],
    [{ catch_up: null }, 'catch_up', 'must be none or one or all'],
    [{ overlap: true }, 'overlap', 'must be allow or skip'],
    [{ paused: 'no' }, 'paused', 'must be true or false'],
    [{ timezone: 'UTC' }, 'timezone', 'is unknown'],
    [{ delay: 5 }, 'delay', 'is unknown'],
  ];
  const errors: [fields: object, error: string][] = [
    [{ action: undefined }, 'action required'],
    [{ data: [] }, 'data must be an object'],
    [{ priority: 6 }, 'priority must be a whole number from 1 to 5'],
  ];

  it('refuses wrong fields with 400, and names them', async () => {
    const server = await startTasksServer();
    for (const [fields, field, detail] of wrong) {
      const refused = { status: 400, body: { error: 'invalid schedule', field, detail } };
      expect(await put(server, 's', { ...nightly, ...fields }), JSON.stringify(fields)).to.deep.equal(refused);
    }
    for (const [fields, error] of errors)
      expect(await put(server, 's', { ...nightly, ...fields })).to.deep.equal({ status: 400, body: { error } });
    for (const name of ['a%20b', 'é', '%00', '...', 'x'.repeat(101)]) {
      const { status, body } = await put(server, name, nightly);
      expect([status, body.error, body.field], name).to.deep.equal([400, 'invalid schedule', 'name']);
    }
    for (const body of [[], null, 5, 'x']) expect((await put(server, 's', body)).status).to.equal(400);
    const raw = await request(`${server.url}/schedules/s`, { method: 'PUT', body: '{' });
    expect([raw.status, raw.body]).to.deep.equal([400, { error: 'invalid JSON' }]);
    const large = { ...nightly, data: { text: 'x'.repeat(20_000) } };
    expect(await put(server, 's', large)).to.deep.equal({ status: 413, body: { error: 'request body too large' } });
    expect((await ask(server, ''))[1].count).to.equal(0);
  });

  it('checks the action and its data as for a submission, also under a time limit', async () => {
    const schema = { type: 'object', required: ['text'], properties: { text: { pattern: '^([a-z]+)*$' } } };
    const rules = { actions: new Map([['letters', { schema }]]), rejectUnknown: true };
    const server = await startTasksServer({ rules, checkTimeoutMs: 1000 });
    const check = (fields: object) => put(server, 's', { ...nightly, ...fields });
    const unknown = { status: 400, body: { error: 'unknown action' } };
    expect(await check({ action: 'other' })).to.deep.equal(unknown);
    for (const [text, path, detail] of [
      [undefined, '/text', 'must be present'],
      ['?', '/text', 'must match pattern "^([a-z]+)*$"'],
      [`${'a'.repeat(50)}!`, '', 'took too long to check'],
    ]) {
      const answer = await check({ action: 'letters', data: { text } });
      expect(answer).to.deep.equal({ status: 400, body: { error: 'invalid data', path, detail } });
    }
    expect((await ask(server, ''))[1].count).to.equal(0);
    expect((await check({ action: 'letters', data: { text: 'abc' } })).status).to.equal(200);
  });
});

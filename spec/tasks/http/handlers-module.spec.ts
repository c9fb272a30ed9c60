import { expect } from 'chai';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import { request } from '../../support/program.ts';
import { startTasksServer } from './tasks-server.ts';

const numbers = { type: 'array', items: { type: 'number' } };
const mean = { type: 'object', required: ['numbers'], properties: { numbers } };
const letters = { type: 'object', properties: { text: { type: 'string', pattern: '^([a-z]+)*$' } } };
const actions: HandlersManifest = new Map([
  ['mean', { schema: mean }],
  ['any', {}],
  ['sum', { schema: { type: 'object' } }],
]);
const roomy = { bodyLimit: 200_000, maxBytes: 10_000_000 };

describe('with a handlers module, POST /tasks', () => {
  for (const [size, filler] of [
    ['small', ''],
    ['large', 'x'.repeat(100_000)],
  ]) {
    it(`refuses a ${size} body whose data does not match the schema of its action`, async () => {
      const { submit, queued } = await startTasksServer({ ...roomy, rules: { actions, rejectUnknown: false } });
      const post = (action: string, data?: object) => submit(JSON.stringify({ action, data, filler }));
      for (const [data, path, detail] of [
        [{ numbers: [1, '2'] }, '/numbers/1', 'must be number'],
        [undefined, '/numbers', 'must be present'],
      ] as const) {
        const refused = { status: 400, body: { error: 'invalid data', path, detail } };
        expect(await post('mean', data)).to.deep.include(refused);
      }
      expect(await queued()).to.deep.equal([]);
      for (const [action, data] of Object.entries({ mean: { numbers: [1] }, any: { numbers: 'x' }, constructor: {} })) {
        expect((await post(action, data)).status, action).to.equal(202);
      }
    });

    it(`refuses a ${size} body with an unknown action if TASK_UNKNOWN_ACTIONS is reject`, async () => {
      const { submit, queued } = await startTasksServer({ ...roomy, rules: { actions, rejectUnknown: true } });
      const post = (action: string) => submit(JSON.stringify({ action, filler }));
      for (const action of ['other', '', 'constructor', '__proto__']) {
        expect(await post(action), action).to.deep.include({ status: 400, body: { error: 'unknown action' } });
      }
      const nearest = { error: 'unknown action', nearest: ['uppercase'] };
      expect(await post('upperCas')).to.deep.include({ status: 400, body: nearest });
      expect(await queued()).to.deep.equal([]);
      for (const action of ['any', 'uppercase', 'sum']) expect((await post(action)).status, action).to.equal(202);
    });
  }

  it('refuses data whose check takes too long, and accepts other tasks meanwhile', async () => {
    const rules = { actions: new Map([...actions, ['letters', { schema: letters }] as const]), rejectUnknown: true };
    const { submit, queued, lines } = await startTasksServer({ rules, checkTimeoutMs: 1000 });
    const post = (action: string, data: object) => submit(JSON.stringify({ action, data }));
    const invalid = { status: 400, body: { error: 'invalid data', path: '', detail: 'took too long to check' } };
    const refused = post('letters', { text: `${'a'.repeat(50)}!` });
    const next = post('letters', { text: 'abc' });
    expect((await post('mean', { numbers: [1] })).status).to.equal(202);
    expect((await post('mean', { numbers: ['1'] })).body).to.include({ path: '/numbers/0' });
    expect(lines).to.deep.equal([]);
    expect(await refused).to.deep.include(invalid);
    expect((await next).status).to.equal(202);
    const detail = 'must match pattern "^([a-z]+)*$"';
    expect((await post('letters', { text: '?' })).body).to.deep.equal({ ...invalid.body, path: '/text', detail });
    expect((await queued()).map(({ body }) => JSON.parse(body).data)).to.deep.equal([
      { numbers: [1] },
      { text: 'abc' },
    ]);
  });

  it('refuses a batch whose checks take too long, and says so', async () => {
    const rules = { actions: new Map([['letters', { schema: letters }]]), rejectUnknown: true };
    const { tasksUrl, queued } = await startTasksServer({ rules, checkTimeoutMs: 1000 });
    const task = { action: 'letters', data: { text: `${'a'.repeat(50)}!` } };
    const body = JSON.stringify({ tasks: [task] });
    const refused = { error: 'invalid batch', errors: [], detail: 'took too long to check: send fewer tasks' };
    expect(await request(`${tasksUrl}/batch`, { method: 'POST', body })).to.deep.include({
      status: 400,
      body: refused,
    });
    expect(await queued()).to.deep.equal([]);
  });
});

describe('GET /actions', () => {
  it('lists the built-in actions', async () => {
    const { status, body } = await request(`${(await startTasksServer()).url}/actions`);
    const builtIn = [{ name: 'uppercase' }, { name: 'sum' }];
    expect([status, body]).to.deep.equal([200, { actions: builtIn, unknown_actions: 'process' }]);
  });

  it('lists those of the handlers module after the built-in ones, with their schemas', async () => {
    const { url } = await startTasksServer({ rules: { actions, rejectUnknown: true } });
    const sum = { name: 'sum', schema: { type: 'object' } };
    const all = [{ name: 'uppercase' }, sum, { name: 'mean', schema: mean }, { name: 'any' }];
    expect((await request(`${url}/actions`)).body).to.deep.equal({ actions: all, unknown_actions: 'reject' });
  });
});

import { expect } from 'chai';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const numbers = { type: 'array', items: { type: 'number' } };
const actions: HandlersManifest = new Map([
  ['mean', { schema: { type: 'object', required: ['numbers'], properties: { numbers } } }],
  ['any', {}],
]);

describe('with a handlers module, POST /tasks', () => {
  for (const filler of ['', 'x'.repeat(100_000)]) {
    const size = filler === '' ? 'small' : 'large';

    it(`refuses ${size} data that does not match the schema of its action, before it is queued`, async () => {
      const rules = { actions, rejectUnknown: false };
      const { submit, queued } = await startTasksServer({ rules, bodyLimit: 200_000, maxBytes: 1e6 });
      const post = (action: string, data?: object) => submit(JSON.stringify({ action, data, filler }));
      const wrong = await post('mean', { numbers: [1, '2'] });
      expect(wrong.status).to.equal(400);
      expect(wrong.body).to.deep.equal({ error: 'invalid data', path: '/numbers/1', detail: 'must be number' });
      expect((await post('mean')).body).to.deep.equal({
        error: 'invalid data',
        path: '/numbers',
        detail: 'must be present',
      });
      expect(await queued()).to.deep.equal([]);
      for (const [action, data] of [
        ['mean', { numbers: [1, 2] }],
        ['any', { numbers: 'x' }],
        ['sum', { numbers: 'x' }],
        ['constructor', {}],
      ] as const) {
        expect((await post(action, data)).status, action).to.equal(202);
      }
      expect(await queued()).to.have.length(4);
    });

    it(`refuses a ${size} task with an unknown action if it is told to`, async () => {
      const rules = { actions, rejectUnknown: true };
      const { submit, queued } = await startTasksServer({ rules, bodyLimit: 200_000, maxBytes: 1e6 });
      for (const action of ['other', '', 'constructor', '__proto__']) {
        const { status, body } = await submit(JSON.stringify({ action, filler }));
        expect([status, body], action).to.deep.equal([400, { error: 'unknown action' }]);
      }
      expect(await queued()).to.deep.equal([]);
      for (const action of ['any', 'uppercase', 'sum']) {
        expect((await submit(JSON.stringify({ action, filler }))).status, action).to.equal(202);
      }
    });
  }
});

describe('with a schema that has a pattern, POST /tasks', () => {
  const schema = { type: 'object', properties: { text: { type: 'string', pattern: '^([a-z]+)*$' } } };
  const rules = { actions: new Map([...actions, ['letters', { schema }] as const]), rejectUnknown: true };
  const post = ({ submit }: TasksServer, action: string, data: object) => submit(JSON.stringify({ action, data }));
  const tooLong = { text: `${'a'.repeat(50)}!` };

  it('checks small data too', async () => {
    const server = await startTasksServer({ rules });
    expect((await post(server, 'letters', { text: 'abc' })).status).to.equal(202);
    const { status, body } = await post(server, 'letters', { text: '?' });
    expect([status, body]).to.deep.equal([
      400,
      { error: 'invalid data', path: '/text', detail: 'must match pattern "^([a-z]+)*$"' },
    ]);
    expect((await server.queued()).map(({ body: text }) => JSON.parse(text).data)).to.deep.equal([{ text: 'abc' }]);
  });

  it('refuses data that takes too long to check, and accepts other tasks meanwhile', async () => {
    const server = await startTasksServer({ rules, checkTimeoutMs: 1000 });
    const refused = post(server, 'letters', tooLong);
    const next = post(server, 'letters', { text: 'abc' });
    expect((await post(server, 'mean', { numbers: [1] })).status).to.equal(202);
    expect((await post(server, 'mean', { numbers: ['1'] })).body).to.include({ path: '/numbers/0' });
    expect(server.lines).to.deep.equal([]);
    const { status, body } = await refused;
    expect([status, body]).to.deep.equal([400, { error: 'invalid data', path: '', detail: 'took too long to check' }]);
    expect((await next).status).to.equal(202);
  });
});

describe('GET /actions', () => {
  it('lists the built-in actions, then those of the handlers module with their schemas', async () => {
    const { url } = await startTasksServer();
    expect((await request(`${url}/actions`)).body).to.deep.equal({
      actions: [{ name: 'uppercase' }, { name: 'sum' }],
      unknown_actions: 'process',
    });
    const own = new Map([...actions, ['sum', { schema: { type: 'object' } }] as const]);
    const other = await startTasksServer({ rules: { actions: own, rejectUnknown: true } });
    const { status, body } = await request(`${other.url}/actions`);
    expect(status).to.equal(200);
    expect(body.unknown_actions).to.equal('reject');
    expect(body.actions).to.deep.equal([
      { name: 'uppercase' },
      { name: 'sum', schema: { type: 'object' } },
      { name: 'mean', schema: actions.get('mean')?.schema },
      { name: 'any' },
    ]);
    expect((await request(`${url}/actions`, { method: 'POST' })).status).to.equal(405);
  });
});

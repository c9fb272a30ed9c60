import { expect } from 'chai';
import type { HandlersManifest } from '../../../workers/tasks/messages.ts';
import { startTasksServer } from './tasks-server.ts';

const numbers = { type: 'array', items: { type: 'number' } };
const mean = { type: 'object', required: ['numbers'], properties: { numbers } };
const letters = { type: 'object', properties: { text: { type: 'string', pattern: '^([a-z]+)*$' } } };
const actions: HandlersManifest = new Map([
  ['mean', { schema: mean }],
  ['any', {}],
  ['sum', { schema: { type: 'object' } }],
  ['letters', { schema: letters }],
]);

/** Starts service B with the actions of a handlers module. `post` submits a task and returns status and body. */
async function start({ rejectUnknown = true, filler = '' } = {}) {
  const rules = { actions, rejectUnknown };
  const server = await startTasksServer({ bodyLimit: 200_000, maxBytes: 10_000_000, rules });
  return { ...server, post: (action: string, data?: object) => server.ask('POST /tasks', { action, data, filler }) };
}

const costly = { text: `${'a'.repeat(50)}!` };

describe('with a handlers module, POST /tasks', () => {
  for (const [size, filler] of [
    ['small', ''],
    ['large', 'x'.repeat(100_000)],
  ]) {
    it(`refuses a ${size} body whose data does not match the schema of its action`, async () => {
      const { post, queued } = await start({ filler, rejectUnknown: false });
      for (const [data, path, detail] of [
        [{ numbers: [1, '2'] }, '/numbers/1', 'must be number'],
        [undefined, '/numbers', 'must be present'],
      ] as const)
        expect(await post('mean', data)).to.deep.equal([400, { error: 'invalid data', path, detail }]);
      expect(await queued()).to.deep.equal([]);
      for (const [action, data] of Object.entries({ mean: { numbers: [1] }, any: { numbers: 'x' }, constructor: {} }))
        expect((await post(action, data))[0], action).to.equal(202);
    });

    it(`refuses a ${size} body with an unknown action if TASK_UNKNOWN_ACTIONS is reject`, async () => {
      const { post, queued } = await start({ filler });
      const unknown = { error: 'unknown action' };
      for (const action of ['other', '', 'constructor', '__proto__'])
        expect(await post(action), action).to.deep.equal([400, unknown]);
      expect(await post('upperCas')).to.deep.equal([400, { ...unknown, nearest: ['uppercase'] }]);
      expect(await queued()).to.deep.equal([]);
      for (const action of ['any', 'uppercase', 'sum']) expect((await post(action))[0], action).to.equal(202);
    });
  }

  it('refuses data, or a batch, whose check takes too long, and accepts other tasks meanwhile', async () => {
    const { ask, post, queued, lines, expireCheck } = await start();
    const invalid = { error: 'invalid data', path: '', detail: 'took too long to check' };
    const refused = post('letters', costly);
    const next = post('letters', { text: 'abc' });
    expect((await post('mean', { numbers: [1] }))[0]).to.equal(202);
    expect((await post('mean', { numbers: ['1'] }))[1]).to.include({ path: '/numbers/0' });
    expect(lines).to.deep.equal([]);
    await expireCheck();
    expect(await refused).to.deep.equal([400, invalid]);
    expect((await next)[0]).to.equal(202);
    const detail = 'must match pattern "^([a-z]+)*$"';
    expect((await post('letters', { text: '?' }))[1]).to.deep.equal({ ...invalid, path: '/text', detail });
    const batch = ask('POST /tasks/batch', { tasks: [{ action: 'letters', data: costly }] });
    await expireCheck();
    expect(await batch).to.deep.equal([
      400,
      { error: 'invalid batch', errors: [], detail: 'took too long to check: send fewer tasks' },
    ]);
    const data = (await queued()).map(({ body }) => JSON.parse(body).data);
    expect(data).to.deep.equal([{ numbers: [1] }, { text: 'abc' }]);
  });
});

describe('GET /actions', () => {
  it('lists the built-in actions, then those of the handlers module, with their schemas', async () => {
    const builtIn = [{ name: 'uppercase' }, { name: 'sum' }];
    const listed = (names: object[], unknown_actions: string) => [200, { actions: names, unknown_actions }];
    expect(await (await startTasksServer()).ask('GET /actions')).to.deep.equal(listed(builtIn, 'process'));
    const sum = { name: 'sum', schema: { type: 'object' } };
    const own = [{ name: 'mean', schema: mean }, { name: 'any' }, { name: 'letters', schema: letters }];
    const all = [{ name: 'uppercase' }, sum, ...own];
    expect(await (await start()).ask('GET /actions')).to.deep.equal(listed(all, 'reject'));
  });
});

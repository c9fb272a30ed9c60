import { expect } from 'chai';
import type { ActionSettings } from '../../../workers/tasks/messages.ts';
import { startTasksServer } from './tasks-server.ts';

const numbers = { type: 'array', items: { type: 'number' } };
const mean = { type: 'object', required: ['numbers'], properties: { numbers } };

const [SLOW, SLOW_TEXT] = ['^([a-z]+)*$', `${'a'.repeat(50)}!`];
const branch = (name: string) => ({ required: [name], properties: { next: { $ref: '#' } } });
/** Schemas, with data whose check takes exponential time. */
const costly: Record<string, [schema: object, data: object]> = {
  letters: [{ properties: { text: { type: 'string', pattern: SLOW } } }, { text: SLOW_TEXT }],
  keys: [{ patternProperties: { [SLOW]: true } }, { [SLOW_TEXT]: 1 }],
  names: [{ propertyNames: { pattern: SLOW } }, { [SLOW_TEXT]: 1 }],
  tree: [{ anyOf: [branch('a'), branch('b')] }, JSON.parse(`${'{"next":'.repeat(60)}{}${'}'.repeat(60)}`)],
};

const slow = Object.entries(costly).map(([name, [schema]]) => ({ name, schema }));
const actions: Record<string, ActionSettings> = {
  ...{ mean: { schema: mean }, any: {}, sum: { schema: { type: 'object' } } },
  ...Object.fromEntries(slow.map(({ name, schema }) => [name, { schema }])),
};

/** Starts service B with the actions of a handlers module. `post` submits a task, and `put` stores a schedule. */
async function start({ rejectUnknown = true, filler = '' } = {}) {
  const server = await startTasksServer({ actions, rejectUnknown });
  const post = (action: string, data?: object) => server.ask('POST /tasks', { action, data, filler });
  const put = (action: string, data?: object) => server.ask('PUT /schedules/s', { cron: '0 3 * * *', action, data });
  return { ...server, post, put };
}

describe('with a handlers module, POST /tasks and PUT /schedules/{name}', () => {
  for (const [size, filler] of Object.entries({ small: '', large: 'x'.repeat(100_000) }))
    it(`refuse a ${size} body whose data does not match the schema of its action, or whose action is unknown if TASK_UNKNOWN_ACTIONS is reject`, async () => {
      const { ask, post, put, queued } = await start({ filler });
      const unknown = { error: 'unknown action' };
      for (const [action, data, refusal] of [
        ['mean', { numbers: [1, '2'] }, { error: 'invalid data', path: '/numbers/1', detail: 'must be number' }],
        ['mean', undefined, { error: 'invalid data', path: '/numbers', detail: 'must be present' }],
        ...['other', '', 'constructor', '__proto__'].map((name) => [name, {}, unknown] as const),
        ['upperCas', {}, { ...unknown, nearest: ['uppercase'] }],
      ] as const) {
        expect(await post(action, data), action).to.deep.equal([400, refusal]);
        expect(await put(action, data), action).to.deep.equal([400, refusal]);
      }
      expect(await queued()).to.deep.equal([]);
      expect((await ask('GET /schedules'))[1].count).to.equal(0);
      for (const [action, data] of Object.entries({ mean: { numbers: [1] }, any: { numbers: 'x' }, uppercase: {} })) {
        expect((await post(action, data))[0], action).to.equal(202);
        expect((await put(action, data))[0], action).to.equal(200);
      }
    });

  it('accept any action unless TASK_UNKNOWN_ACTIONS is reject', async () => {
    const { post } = await start({ rejectUnknown: false });
    for (const action of ['other', 'constructor', 'sum']) expect((await post(action, {}))[0], action).to.equal(202);
  });

  it('refuse data, or a batch, whose check takes too long, log it, and accept other tasks meanwhile', async () => {
    const { ask, post, put, queued, lines, expireCheck } = await start();
    const invalid = { error: 'invalid data', path: '', detail: 'took too long to check' };
    for (const [action, [, data]] of Object.entries(costly)) {
      const refused = post(action, data);
      const next = post('letters', { text: 'abc' });
      expect((await post('mean', { numbers: [1] }))[0]).to.equal(202);
      await expireCheck();
      expect(await refused, action).to.deep.equal([400, invalid]);
      expect((await next)[0]).to.equal(202);
      expect(lines.pop()).to.include({ msg: 'the check of a submission took too long', action });
    }
    const scheduled = put('letters', { text: SLOW_TEXT });
    await expireCheck();
    expect(await scheduled).to.deep.equal([400, invalid]);
    const detail = 'must match pattern "^([a-z]+)*$"';
    expect((await post('letters', { text: '?' }))[1]).to.deep.equal({ ...invalid, path: '/text', detail });
    const batch = ask('POST /tasks/batch', { tasks: [{ action: 'letters', data: { text: SLOW_TEXT } }] });
    await expireCheck();
    const refused = { error: 'invalid batch', errors: [], detail: 'took too long to check: send fewer tasks' };
    expect([await batch, (await queued()).length]).to.deep.equal([[400, refused], 8]);
  });
});

describe('GET /actions', () => {
  it('lists the built-in actions, then those of the handlers module, with their schemas', async () => {
    const builtIn = [{ name: 'uppercase' }, { name: 'sum' }];
    const listed = (names: object[], unknown_actions: string) => [200, { actions: names, unknown_actions }];
    expect(await (await startTasksServer()).ask('GET /actions')).to.deep.equal(listed(builtIn, 'process'));
    const sum = { name: 'sum', schema: { type: 'object' } };
    const all = [{ name: 'uppercase' }, sum, { name: 'mean', schema: mean }, { name: 'any' }, ...slow];
    expect(await (await start()).ask('GET /actions')).to.deep.equal(listed(all, 'reject'));
  });
});

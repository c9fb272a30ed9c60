import { expect } from 'chai';
import { discard } from '../../store/settlements.ts';
import { startTasksServer } from './tasks-server.ts';

const URL = 'https://example.com/hook';
const DEFAULT = 'https://example.com/default';
const actions = new Map([
  ['own', { callback: DEFAULT }],
  ['slow', { callback: DEFAULT, schema: { type: 'object', properties: { a: { pattern: 'b' } } } }],
]);
const nightly = { cron: '0 3 * * *' };

describe('a callback_url', () => {
  const start = () =>
    startTasksServer({ callbackHosts: ['example.com'], rules: { actions, rejectUnknown: false }, bodyLimit: 50_000 });

  it('is stored with its task and shown until the task is completed', async () => {
    const { submitTask, take, settle, find } = await start();
    const id = await submitTask({ callback_url: `${URL}#part` });
    expect(await find(id)).to.include({ status: 'queued', callback_url: URL });
    await settle(await take(), discard());
    expect(await find(id)).to.include({ status: 'failed', callback_url: URL });
    expect((await take()).callbackOf).to.equal(id);
  });

  it('is refused with 400 if its host is not allowed, also in a large body, which the submission thread parses', async () => {
    const { ask } = await start();
    const evil = { action: 'sum', callback_url: 'http://evil.example/', data: { text: 'x'.repeat(20_000) } };
    const detail = 'the host evil.example is not in CALLBACK_HOSTS';
    const refusal = { error: 'invalid callback_url', path: '/callback_url', detail };
    expect(await ask('POST /tasks', evil)).to.deep.equal([400, refusal]);
  });

  it('is taken from the action if the submission has none', async () => {
    const { submitTask, ask, queued, queue } = await start();
    for (const fields of [{ action: 'own' }, { action: 'own', callback_url: URL }, { action: 'slow' }])
      await submitTask(fields);
    await ask('POST /tasks/batch', { tasks: [{ action: 'own' }, { action: 'sum' }] });
    for (const callback_url of [URL, undefined]) {
      const [, put] = await ask('PUT /schedules/nightly', { ...nightly, action: 'own', callback_url });
      expect(put.callback_url).to.equal(callback_url);
      await ask('POST /schedules/nightly/run');
    }
    const read = await queue.read((await queued()).map(({ id }) => id));
    const urls = [DEFAULT, URL, DEFAULT, DEFAULT, undefined, URL, DEFAULT];
    expect(read.map(({ callbackUrl }) => callbackUrl)).to.deep.equal(urls);
  });
});

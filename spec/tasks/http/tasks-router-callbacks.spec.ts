import { expect } from 'chai';
import { discard } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { startTasksServer } from './tasks-server.ts';

const URL = 'https://example.com/hook';
const DEFAULT = 'https://example.com/default';
const actions = new Map([
  ['own', { callback: DEFAULT }],
  ['slow', { callback: DEFAULT, schema: { type: 'object', properties: { a: { pattern: 'b' } } } }],
]);
const json = (value: unknown) => JSON.stringify(value);

describe('a callback_url', () => {
  const start = () =>
    startTasksServer({ callbackHosts: ['example.com'], rules: { actions, rejectUnknown: false }, bodyLimit: 50_000 });

  it('is stored with its task and shown until the task is completed', async () => {
    const { submit, take, settle, tasksUrl } = await start();
    const { body } = await submit(json({ action: 'sum', callback_url: `${URL}#part` }));
    const shown = async () => (await request(`${tasksUrl}/${body.id}`)).body;
    expect(await shown()).to.include({ status: 'queued', callback_url: URL });
    const delivery = await take();
    await settle(delivery, discard());
    expect(await shown()).to.include({ status: 'failed', callback_url: URL });
    expect((await take()).callbackOf).to.equal(body.id);
  });

  it('is refused with 400 if it is no allowed URL, in a batch and a schedule as well', async () => {
    const { submit, url, queued } = await start();
    const refusal = (detail: string) => ({ error: 'invalid callback_url', path: '/callback_url', detail });
    const wrong = refusal('the host evil.example is not in CALLBACK_HOSTS');
    const given = { action: 'sum', callback_url: 'http://evil.example/' };
    expect(await submit(json(given))).to.deep.include({ status: 400, body: wrong });
    expect((await submit(json({ action: 'sum', callback_url: 1 }))).body).to.deep.equal(refusal('must be a text'));
    // The submission thread parses a large body.
    const large = json({ ...given, data: { text: 'x'.repeat(20_000) } });
    expect(await submit(large)).to.deep.include({ status: 400, body: wrong });
    const tasks = [{ action: 'own', callback_url: URL }, given, { data: 1 }, { action: 'own', callback_url: null }];
    const batch = await request(`${url}/tasks/batch`, { method: 'POST', body: json({ tasks }) });
    expect(batch.body.errors).to.deep.equal([
      { index: 1, ...wrong },
      { index: 2, error: 'action required' },
      { index: 3, ...refusal('must be a text') },
    ]);
    const schedule = json({ cron: '0 3 * * *', ...given });
    const put = await request(`${url}/schedules/nightly`, { method: 'PUT', body: schedule });
    expect(put).to.deep.include({ status: 400, body: wrong });
    expect(await queued()).to.deep.equal([]);
  });

  it('is taken from the action if the submission has none', async () => {
    const { submit, url, queued, queue } = await start();
    await submit(json({ action: 'own' }));
    await submit(json({ action: 'own', callback_url: URL }));
    await submit(json({ action: 'slow' }));
    const tasks = [{ action: 'own' }, { action: 'sum' }];
    await request(`${url}/tasks/batch`, { method: 'POST', body: json({ tasks }) });
    for (const callback_url of [URL, undefined]) {
      const schedule = json({ cron: '0 3 * * *', action: 'own', callback_url });
      const put = await request(`${url}/schedules/nightly`, { method: 'PUT', body: schedule });
      expect(put.body.callback_url).to.equal(callback_url);
      await request(`${url}/schedules/nightly/run`, { method: 'POST' });
    }
    const ids = (await queued()).map(({ id }) => id);
    const read = await queue.read(ids);
    const urls = [DEFAULT, URL, DEFAULT, DEFAULT, undefined, URL, DEFAULT];
    expect(read.map(({ callbackUrl }) => callbackUrl)).to.deep.equal(urls);
  });

  it('belongs to what an idempotency key identifies', async () => {
    const { submit } = await start();
    const headers = { 'Idempotency-Key': 'k' };
    expect((await submit(json({ action: 'sum', callback_url: URL }), { headers })).status).to.equal(202);
    expect((await submit(json({ action: 'sum' }), { headers })).status).to.equal(422);
  });

  it('is refused by default', async () => {
    const { submit } = await startTasksServer();
    const { status, body } = await submit(json({ action: 'sum', callback_url: URL }));
    expect([status, body.detail]).to.deep.equal([400, 'the host example.com is not in CALLBACK_HOSTS']);
  });
});

describe('the limits of callbacks', () => {
  it('apply again after those of a request are deleted', async () => {
    const { url } = await startTasksServer({ callbackHosts: ['example.com'] });
    const limit = `${url}/limits/callback`;
    await request(limit, { method: 'PUT', body: json({ concurrency: 1 }) });
    await request(limit, { method: 'DELETE' });
    expect((await request(`${url}/limits`)).body.limits).to.deep.equal([
      { action: 'callback', concurrency: 64, per_key: { concurrency: 8 }, source: 'module', running: 0 },
    ]);
  });
});

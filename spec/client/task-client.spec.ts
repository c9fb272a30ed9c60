import { fileURLToPath } from 'node:url';
import { expect } from 'chai';
import { TaskCancelledError, TaskClient, UnreachableError } from '../../www/client.ts';
import { errorOf } from '../store/stage.ts';
import { afterTest, onceForSuite, temporaryFolder } from '../support/cleanup.ts';
import { startServices } from '../support/program.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { faultyNetwork } from './faulty-network.ts';
import type handlers from './sample-handlers.ts';

const TASK_HANDLERS = fileURLToPath(new URL('sample-handlers.ts', import.meta.url));

function clientOf(url: string, credentials?: ConstructorParameters<typeof TaskClient>[1]): TaskClient<typeof handlers> {
  const client = new TaskClient<typeof handlers>(url, credentials);
  afterTest(() => client.close());
  return client;
}

const thrown = (promise: Promise<unknown>) => errorOf(() => promise);

describe('the client of the task queue', () => {
  const running = onceForSuite(() => startServices({ env: { TASK_HANDLERS, TASK_CONCURRENCY: '4' } }));

  it('knows the actions, data and outputs of a handlers module', async () => {
    const client = clientOf(running().tasks);
    const task = await client.submit('resize', { width: 100 });
    const { output } = await task.result();
    const plain: { width: number; at: string } = output;
    expect(plain).to.deep.equal({ width: 100, at: '1970-01-01T00:00:00.000Z' });
    const [sum, upper, second] = await client.batch([
      { action: 'sum', data: { numbers: [1, 2] } },
      { action: 'uppercase', data: { text: 'a' }, priority: 1 },
      { action: 'second', data: {} },
    ]);
    const outputs: [number, string, number] = [
      (await sum.result()).output,
      (await upper.result()).output,
      (await second.result()).output,
    ];
    expect(outputs).to.deep.equal([3, 'A', 2]);
    // @ts-expect-error
    expect(await thrown(client.submit('resise', { width: 1 }))).to.include({ status: 400, message: 'unknown action' });
    // @ts-expect-error
    await client.submit('resize', { with: 1 });
    // @ts-expect-error
    await client.batch([{ action: 'resize', data: { width: '1' } }]);
    await new TaskClient(running().tasks).submit('resize', { width: 'anything' });
  });

  it('tells the events of a task, and how it ended', async () => {
    const client = clientOf(running().tasks);
    const told: string[] = [];
    const second = await client.submit('second', {}, { delay: 600 });
    for (const name of ['scheduled', 'started', 'retrying', 'completed', 'failed'] as const)
      second.on(name, () => told.push(name) === 1 && void second.run());
    expect(await second.result()).to.include({ output: 2, attempts: 2 });
    expect(told).to.deep.equal(['scheduled', 'started', 'retrying', 'started', 'completed']);
    const resize = await client.submit('resize', { width: 1 }, { delay: 600 });
    resize.on('scheduled', () => void resize.run());
    resize.on('progress', ({ fraction, note }) => told.push(`${fraction} ${note}`));
    await resize.result();
    expect(told.at(-1)).to.equal('0.5 half');
    const failed = await client.submit('fail', {});
    const failure = { name: 'TaskFailedError', message: 'never', attempts: 1 };
    for (let time = 0; time < 2; time++) expect(await thrown(failed.result())).to.include(failure);
    const hanging = await client.submit('hang', {});
    const end = thrown(hanging.result());
    await new Promise((resolve) => hanging.on('started', resolve));
    expect(await hanging.cancel()).to.equal(false);
    expect(await end).to.be.instanceOf(TaskCancelledError);
    expect((await (await client.submit('early', { ms: 1500 })).result()).output).to.equal('late');
  });

  it('submits again after 429, 500 and a lost answer, and makes one task of each', async () => {
    const network = await faultyNetwork(running().tasks);
    const client = clientOf(network.url, { fetch: network.fetch });
    const { accepted } = await client.queue.status();
    network.fail('/tasks', { status: 429, headers: { 'Retry-After': '1' } }, { status: 500 }, 'lost', 'lost');
    const startedAt = performance.now();
    const task = await client.submit('resize', { width: 2 });
    expect(performance.now() - startedAt).to.be.at.least(1000);
    expect(network.requests.filter((each) => each === 'POST /tasks')).to.have.length(5);
    expect((await task.result()).output.width).to.equal(2);
    network.fail('/tasks/batch', 'lost');
    await client.batch([{ action: 'resize', data: { width: 3 }, idempotency_key: undefined }]);
    expect((await client.queue.status()).accepted).to.equal(accepted + 2);
    // A request that may have been done is not repeated, unless it has the same effect twice.
    network.fail(`/tasks/${task.id}/run`, 'lost');
    expect(await thrown(task.run())).to.be.instanceOf(UnreachableError);
    expect(await thrown(task.run())).to.include({ name: 'ServiceError', status: 409, message: 'task finished' });
  });

  it('gets results although a proxy buffers the events, refuses them, or cuts them', async () => {
    const network = await faultyNetwork(running().tasks);
    const client = clientOf(network.url, { fetch: network.fetch });
    network.fail('/tasks/events', 'lost');
    expect((await (await client.submit('second', {})).result()).output).to.equal(2);
    expect(client.status.state).to.equal('connecting');
    client.on('event', () => {}); // Without a listener, the stream is stopped a while after the last task.
    network.cut();
    await until(() => client.status.state === 'live');
    // The stream continues after the last event, so none is missing.
    const told: string[] = [];
    client.on('event', ({ event }) => told.push(event));
    const task = await client.submit('second', {}, { delay: 0.5 });
    await until(() => told.includes('scheduled'));
    network.fail('/tasks/events', { status: 503, headers: { 'Retry-After': '1' } });
    network.cut();
    await task.result();
    await until(() => told.includes('completed'));
    expect(told).to.deep.equal(['scheduled', 'started', 'retrying', 'started', 'completed']);
  });

  it('follows tasks over the death of the server', async () => {
    const env = { DATA_DIR: await temporaryFolder(), QUEUE_DRIVER: 'sqlite' };
    const before = await startServices({ env });
    const client = clientOf(before.tasks);
    const states: string[] = [];
    client.on('status', ({ state }) => states.push(state));
    const tasks = await client.batch([
      { action: 'sum', data: { numbers: [1] }, delay: 600 },
      { action: 'uppercase', data: { text: 'a' }, delay: 600 },
    ]);
    const results = Promise.all(tasks.map((task) => task.result()));
    await until(() => states.includes('live'));
    await before.end('SIGKILL');
    const submitted = client.submit('sum', { numbers: [4] });
    const after = await startServices({ env: { ...env, TASKS_PORT: new URL(before.tasks).port } });
    await until(() => states.at(-1) === 'live');
    await Promise.all(tasks.map((task) => task.run()));
    expect((await results).map(({ output }) => output)).to.deep.equal([1, 'A']);
    expect((await (await submitted).result()).output).to.equal(4);
    expect(after.tasks).to.equal(before.tasks);
    expect(states.join(' ')).to.match(/^connecting live offline connecting( offline connecting)* live/);
  });

  it('says that a task is lost if the server died with it', async () => {
    const before = await startServices();
    const client = clientOf(before.tasks);
    const task = await client.submit('sum', {}, { delay: 600 });
    const end = thrown(task.result());
    await new Promise((resolve) => task.on('scheduled', resolve));
    await before.end('SIGKILL');
    await startServices({ env: { TASKS_PORT: new URL(before.tasks).port } });
    expect(await end).to.include({ name: 'ServiceError', status: 404, message: 'task not found' });
  });

  it('renews its token, says when it cannot, and creates longer ones for a task and for a limit key, with which another client follows and cancels, until they are revoked', async () => {
    const services = await startServices({ env: { TASKS_REQUIRE_TOKEN: 'true', TOKEN_LIFETIME_SECONDS: '2' } });
    const token = await services.token();
    const own = clientOf(services.tasks, { apiKey: services.apiKey });
    const [given, none] = [clientOf(services.tasks, { token }), clientOf(services.tasks)];
    expect(await given.list()).to.deep.equal([]);
    const later = await own.submit('sum', {}, { delay: 60, limit_key: 'a/b' });
    const task = await own.submit('sum', { numbers: [5] }, { delay: 3 });
    const visitor = clientOf(services.tasks, await task.token({ expiresIn: 60 }));
    const customer = clientOf(services.tasks, await own.limitKeyToken('a/b', { cancel: true }));
    for (const { output } of await Promise.all([task.result(), visitor.task(task.id).result()]))
      expect(output).to.equal(5);
    expect((await visitor.task(task.id).get()).status).to.equal('completed');
    expect(await thrown(visitor.task(later.id).get())).to.include({ status: 404 });
    expect(await thrown(visitor.task(task.id).cancel())).to.include({ status: 403 });
    expect(await customer.task(later.id).cancel()).to.equal(true);
    await visitor.revoke();
    expect(await thrown(visitor.list())).to.include({ status: 401 });
    const refused = { status: 401, message: 'authentication required' };
    for (const client of [given, none]) expect(await thrown(client.task(task.id).result())).to.include(refused);
    await until(() => none.status.state === 'stopped');
    expect(none.status).to.include({ reason: 'authentication required' });
  });

  it('does what the API does', async () => {
    const client = clientOf(running().tasks);
    expect((await client.actions()).actions.map(({ name }) => name)).to.include.members(['sum', 'resize']);
    const paused: unknown = await client.queue.pause();
    const events: string[] = [];
    client.on('event', ({ event }) => events.push(event));
    await until(() => client.status.state === 'live');
    const waiting = await client.submit('sum', {}, { limit_key: 'acme', priority: 2 });
    expect(await waiting.get()).to.include({ status: 'queued', limit_key: 'acme', priority: 2 });
    expect((await client.queue.tasks('queued')).total).to.equal(1);
    expect(await client.cancelAll({ limit_key: 'acme' })).to.deep.equal({ count: 1, remaining: 0 });
    const later = await client.submit('sum', {}, { run_at: new Date(Date.now() + 60_000) });
    await later.run();
    const resumed: unknown = await client.queue.resume();
    await later.result();
    expect(await client.task(later.id).get()).to.include({ status: 'completed' });
    expect((await client.list({ action: 'sum', before: later.id })).map(({ id }) => id)).to.not.include(later.id);
    expect((await client.queue.history()).accepted).to.be.an('array');
    expect(await client.http.request('queue/history?step=60')).to.have.property('minutes');
    expect((await client.queue.history({ step: 60 })).minutes).to.be.a('number');
    expect((await client.queue.activity()).actions.map(({ action }) => action)).to.include('sum');
    await until(() => events.includes('resumed'));
    expect(await client.limits.put('sum', { concurrency: 2 })).to.include({ action: 'sum' });
    expect((await client.limits.list()).map(({ action }) => action)).to.include('sum');
    await client.limits.delete('sum');

    const nightly = await client.schedules.put('night', { cron: '0 3 * * *', action: 'sum' });
    expect(await client.schedules.get('night')).to.deep.equal(nightly);
    await client.task(await client.schedules.run('night')).result();
    expect(await client.schedules.list()).to.have.length(1);
    const wrong = thrown(client.schedules.put('night', { cron: 'x', action: 'sum' }));
    expect(await wrong).to.include({ message: 'invalid schedule', status: 400, path: '/cron' });
    await client.schedules.delete('night');

    await client.deadLetters.purgeAll({ all: true });
    const failed = await client.submit('fail', {});
    await thrown(failed.result());
    expect((await client.deadLetters.list({ reason: 'never' })).map(({ id }) => id)).to.deep.equal([failed.id]);
    expect((await client.deadLetters.reasons()).total).to.equal(1);
    const { causes } = await client.deadLetters.reasons({ text: 'NEVER', since: 1 });
    expect(causes).to.have.length(1);
    const search = await client.search({ state: 'failed', cause: causes[0]?.cause ?? '', limit: 1 });
    expect(search).to.deep.include({ total: 1, total_is_exact: true, next_cursor: null });
    expect(search.tasks[0]).to.include({ id: failed.id });
    const redriven: unknown = await client.deadLetters.redrive(failed.id);
    expect([paused, resumed, redriven]).to.deep.equal([undefined, undefined, undefined]);
    await until(async () => (await client.deadLetters.reasons()).total === 1);
    expect(await client.deadLetters.redriveAll({ ids: [failed.id] })).to.include({ count: 1 });
    await until(async () => (await client.deadLetters.reasons()).total === 1);
    await client.deadLetters.purge(failed.id);
    expect(await thrown(client.deadLetters.purge(failed.id))).to.include({ message: 'dead letter not found' });
  });

  it('changes any number of tasks by id, with several requests that share a pace', async () => {
    const bodies: { ids: string[]; per_second?: number }[] = [];
    const client = clientOf('http://localhost', {
      fetch: async (_url, { body }) => {
        bodies.push(JSON.parse(body ?? ''));
        return Response.json({ count: 2, remaining: 1 });
      },
    });
    const ids = Array.from({ length: 2_001 }, (_, index) => `${index}`);
    const sum = { count: 6, remaining: 3 };
    expect(await client.deadLetters.redriveAll({ ids, per_second: 30 })).to.deep.equal(sum);
    expect(await client.deadLetters.purgeAll({ ids })).to.deep.equal(sum);
    expect(await client.cancelAll({ ids })).to.deep.equal(sum);
    expect(bodies.map((body) => body.ids.length)).to.deep.equal(Array(9).fill(667));
    expect(bodies.slice(0, 4).map(({ per_second }) => per_second)).to.deep.equal([10, 10, 10, undefined]);
    expect(bodies.slice(0, 3).flatMap((body) => body.ids)).to.deep.equal(ids);
    const answers = [Response.json({}), Response.json({ error: 'bad request' }, { status: 400 })];
    const refused = clientOf('http://localhost', { fetch: async () => answers.shift() as Response });
    expect(await thrown(refused.cancelAll({ ids }))).to.include({ message: 'bad request' });
    expect(answers, 'requests that were not sent').to.deep.equal([]);
  });

  it('sends a request once with `giveUpMs` 0, and reports its failure at once', async () => {
    const network = await faultyNetwork(running().tasks);
    const client = clientOf(network.url, { fetch: network.fetch, giveUpMs: 0 });
    network.fail('/queue', 'lost', { status: 503 });
    expect(await thrown(client.queue.status())).to.be.instanceOf(UnreachableError);
    expect(await thrown(client.queue.status())).to.include({ status: 503 });
    expect(network.requests).to.deep.equal(['GET /queue', 'GET /queue']);
  });

  it('asks again after an answer without a body', async () => {
    const texts = ['{"status":"completed","result":null}', '', 'null'];
    const answers = [new Response(null, { status: 204 }), ...texts.map((text) => new Response(text))];
    const events = new Promise<Response>(() => {});
    const fetch = async ({ pathname }: URL) => (pathname === '/tasks/a' && answers.shift()) || events;
    const task = clientOf('http://localhost', { fetch, giveUpMs: 0 }).task('a');
    expect((await task.result()).output).to.equal(undefined);
    while (answers.length > 0) expect(await thrown(task.get())).to.be.instanceOf(UnreachableError);
  });

  it('ends what a signal aborts, and everything with close, also if nothing answers', async () => {
    const proxy = await severable(running().tasks);
    const client = clientOf(proxy.url);
    const task = await client.submit('hang', {});
    const abort = new AbortController();
    const [one, other] = [thrown(task.result({ signal: abort.signal })), thrown(task.result())];
    await until(() => client.status.state === 'live');
    proxy.stall();
    const submission = thrown(client.submit('hang', {}, { signal: abort.signal }));
    const listing = thrown(client.list());
    abort.abort(new Error('enough'));
    expect([(await one).message, (await submission).message]).to.deep.equal(['enough', 'enough']);
    client.close();
    for (const error of [await other, await listing]) expect(error).to.include({ message: 'the client is closed' });
    expect(client.status).to.deep.equal({ state: 'stopped', reason: 'closed' });
    await clientOf(running().tasks).cancelAll({ action: 'hang' });
  });
});

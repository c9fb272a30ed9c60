import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { retry } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { followEvents } from './event-client.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

/** Submits a task. Returns its id. */
async function submit(server: TasksServer, fields: object, headers: Record<string, string> = {}): Promise<string> {
  const { status, body } = await server.submit(JSON.stringify({ action: 'sum', ...fields }), { headers });
  expect([status, body]).to.deep.equal([202, { id: body.id, status: 'queued' }]);
  return body.id;
}

const run = ({ tasksUrl }: TasksServer, id: string) => request(`${tasksUrl}/${id}/run`, { method: 'POST' });
const find = async ({ tasksUrl }: TasksServer, id: string) => (await request(`${tasksUrl}/${id}`)).body;

describe('a scheduled task', () => {
  it('is answered like any other, and shown with its time until it is due', async () => {
    const server = await startTasksServer();
    const before = systemClock.now();
    const id = await submit(server, { delay: 3600, priority: 2 });
    const { run_at_ms, ...task } = await find(server, id);
    expect(run_at_ms).to.be.within(before + 3_600_000, systemClock.now() + 3_600_000);
    expect(task).to.include({ id, status: 'scheduled', priority: 2 });
    expect(await server.queued()).to.deep.equal([]);
    const soon = await submit(server, { delay: 0.001 });
    const delivery = await server.take();
    expect(delivery.id).to.equal(soon);
    expect(delivery.dueAt).to.be.at.most(systemClock.now());
  });

  it('is listed, next due first, and counted', async () => {
    const server = await startTasksServer();
    const later = await submit(server, { run_at: systemClock.now() / 1000 + 7200 });
    const sooner = await submit(server, { delay: 3600 });
    await submit(server, {});
    const { tasks, ...counts } = (await request(`${server.url}/queue/tasks?state=scheduled`)).body;
    expect(counts).to.deep.equal({ count: 2, total: 2 });
    expect(tasks.map(({ id }: { id: string }) => id)).to.deep.equal([sooner, later]);
    expect(tasks[0]).to.include({ status: 'scheduled', action: 'sum', priority: 3 });
    expect(tasks[0].run_at_ms).to.be.above(systemClock.now());
    const { body } = await request(`${server.url}/queue`);
    expect(body).to.include({ accepted: 3, waiting: 1, scheduled: 2, delayed: 0, in_flight: 0 });
  });

  it('runs now on request, like a retrying one, and a task that waits or runs stays as it is', async () => {
    const server = await startTasksServer();
    const [scheduled, retried] = [await submit(server, { delay: 3600 }), await submit(server, {})];
    await server.settle(await server.take(), retry(systemClock.now() + 3_600_000));
    for (const id of [retried, scheduled, scheduled]) {
      const { status, body, headers } = await run(server, id);
      expect([status, body]).to.deep.equal([202, { id, status: 'queued' }]);
      expect(headers.get('Location')).to.equal(`/tasks/${id}`);
    }
    const [first, second] = await server.takeAll(2);
    expect([first?.id, second?.id]).to.deep.equal([retried, scheduled]);
    expect((await run(server, scheduled)).body).to.deep.equal({ id: scheduled, status: 'running' });
    await server.complete(second as NonNullable<typeof second>);
    const ended = await run(server, scheduled);
    expect([ended.status, ended.body]).to.deep.equal([409, { error: 'task finished' }]);
    const unknown = await run(server, 'x');
    expect([unknown.status, unknown.body]).to.deep.equal([404, { error: 'task not found' }]);
  });

  it('is cancelled like a waiting one', async () => {
    const server = await startTasksServer();
    const id = await submit(server, { delay: 3600 });
    expect((await request(`${server.tasksUrl}/${id}`, { method: 'DELETE' })).status).to.equal(204);
    expect((await request(`${server.url}/queue`)).body).to.include({ cancelled: 1, scheduled: 0, bytes: 0 });
  });

  it('is reported by the event `scheduled`, and by `accepted` if it is run before its time', async () => {
    const server = await startTasksServer();
    const events = await followEvents(server.url);
    const id = await submit(server, { delay: 3600 });
    await run(server, id);
    const [first, second] = [await events.next(), await events.next()];
    expect(first).to.include({ event: 'scheduled' });
    expect(first?.data).to.include({ id, status: 'scheduled', action: 'sum' });
    expect(first?.data.run_at_ms).to.be.above(systemClock.now());
    expect(second).to.include({ event: 'accepted' });
    expect(second?.data).to.include({ id, status: 'queued' });
  });

  it('has an idempotency key that covers its options', async () => {
    const server = await startTasksServer();
    const key = { 'Idempotency-Key': 'once' };
    const id = await submit(server, { delay: 3600, priority: 1 }, key);
    expect(await submit(server, { priority: 1, delay: 3600 }, key)).to.equal(id);
    for (const other of [{ delay: 3600 }, { delay: 60, priority: 1 }, { priority: 1 }, {}]) {
      const { status } = await server.submit(JSON.stringify({ action: 'sum', ...other }), { headers: key });
      expect(status).to.equal(422);
    }
  });

  it('may have a body that the submission thread parses', async () => {
    const server = await startTasksServer({ bodyLimit: 100_000 });
    const id = await submit(server, { data: { text: 'x'.repeat(20_000) }, delay: 3600, priority: 5 });
    expect(await find(server, id)).to.include({ status: 'scheduled', priority: 5 });
  });
});

describe('a submission with a wrong option', () => {
  for (const [fields, error] of [
    [{ delay: '60' }, 'delay must be seconds from 0 to 31622400'],
    [
      { run_at: 'tomorrow' },
      'run_at must be an ISO 8601 time with an offset or Unix seconds, from a minute ago to 366 days ahead',
    ],
    [{ delay: 1, run_at: 1 }, 'give delay or run_at, not both'],
    [{ priority: 0 }, 'priority must be a whole number from 1 to 5'],
  ] as const) {
    it(`is refused: ${error}`, async () => {
      const server = await startTasksServer();
      const { status, body } = await server.submit(JSON.stringify({ action: 'sum', ...fields }));
      expect([status, body]).to.deep.equal([400, { error }]);
      expect(await server.queued()).to.deep.equal([]);
    });
  }
});

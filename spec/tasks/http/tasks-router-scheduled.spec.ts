import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { retry } from '../../store/stage.ts';
import { post, request } from '../../support/program.ts';
import { followEvents } from './event-client.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const run = ({ tasksUrl }: TasksServer, id: string) => request(`${tasksUrl}/${id}/run`, { method: 'POST' });

describe('a scheduled task', () => {
  it('is answered like any other, and shown with its time until it is due', async () => {
    const server = await startTasksServer();
    const before = systemClock.now();
    const id = await server.submitTask({ delay: 3600, priority: 2 });
    const { run_at_ms, ...task } = await server.find(id);
    expect(run_at_ms).to.be.within(before + 3_600_000, systemClock.now() + 3_600_000);
    expect(task).to.include({ id, status: 'scheduled', priority: 2 });
    expect(await server.queued()).to.deep.equal([]);
    const soon = await server.submitTask({ delay: 0.001 });
    const delivery = await server.take();
    expect(delivery.id).to.equal(soon);
    expect(delivery.dueAt).to.be.at.most(systemClock.now());
  });

  it('runs now on request, like a retrying one, and a task that waits or runs stays as it is', async () => {
    const server = await startTasksServer();
    const [scheduled, retried] = [await server.submitTask({ delay: 3600 }), await server.submitTask({})];
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

  it('is reported by the event `scheduled`, and by `accepted` if it is run before its time', async () => {
    const server = await startTasksServer();
    const events = await followEvents(server.url);
    const id = await server.submitTask({ delay: 3600 });
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
    const id = await server.submitTask({ delay: 3600, priority: 1 }, key);
    expect(await server.submitTask({ priority: 1, delay: 3600 }, key)).to.equal(id);
    for (const other of [{ delay: 3600 }, { delay: 60, priority: 1 }, { priority: 1 }, {}]) {
      const { status } = await server.submit(JSON.stringify({ action: 'sum', ...other }), { headers: key });
      expect(status).to.equal(422);
    }
  });
});

describe('a field that looks like an option', () => {
  it('is refused with the option that it looks like, also in a batch, and other fields are ignored', async () => {
    const server = await startTasksServer();
    const unknown = (path: string, detail: string) => ({ error: 'unknown option', path, detail });
    const inBatch = (...errors: object[]) => ({ error: 'invalid batch', errors });
    const sum = { action: 'sum' };
    const delay = unknown('/delay_seconds', 'looks like delay');
    const key = unknown('/idempotencyKey', 'looks like idempotency_key');
    for (const [fields, body] of [
      [{ ...sum, delay_seconds: 5 }, delay],
      [{ ...sum, idempotency_key: 'x' }, unknown('/idempotency_key', 'looks like the header Idempotency-Key')],
      [
        {
          tasks: [
            { ...sum, note: 'x' },
            { ...sum, delay_seconds: 5 },
          ],
        },
        inBatch({ index: 1, ...delay }),
      ],
      [{ tasks: [{ ...sum, idempotencyKey: 'x' }] }, inBatch({ index: 0, ...key })],
      [{ tasks: [sum], priority: 1 }, unknown('/priority', 'belongs in each task, as priority')],
      [{ tasks: [sum], idempotencyKey: 'x' }, unknown('/idempotencyKey', 'belongs in each task, as idempotency_key')],
    ] as const) {
      const refused = await post('tasks' in fields ? `${server.tasksUrl}/batch` : server.tasksUrl, fields);
      expect(refused, JSON.stringify(fields)).to.deep.include({ status: 400, body });
    }
    expect(await server.queued()).to.deep.equal([]);
    await server.submitTask({ note: 'x', relay: 5 });
  });
});

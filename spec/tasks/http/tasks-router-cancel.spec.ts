import { renameSync } from 'node:fs';
import { expect } from 'chai';
import { discard, openInbox, retry } from '../../drivers/inbox.ts';
import { request } from '../../support/program.ts';
import { followEvents } from './event-client.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const SUM = '{"action":"sum"}';
const finished = [409, { error: 'task finished' }];
const notFound = [404, { error: 'task not found' }];

async function cancel({ tasksUrl }: TasksServer, id: string): Promise<[status: number, body: unknown]> {
  const { status, body } = await request(`${tasksUrl}/${id}`, { method: 'DELETE' });
  return [status, body];
}

async function submit(server: TasksServer): Promise<string> {
  return (await server.submit(SUM)).body.id;
}

describe('DELETE /tasks/:id', () => {
  it('removes a queued task, which is unknown from then on', async () => {
    const server = await startTasksServer();
    const id = await submit(server);
    expect(await cancel(server, id)).to.deep.equal([204, '']);
    expect(await cancel(server, id)).to.deep.equal(notFound);
    expect((await request(`${server.tasksUrl}/${id}`)).status).to.equal(404);
    const { body } = await request(`${server.url}/queue`);
    expect(body).to.include({ accepted: 1, cancelled: 1, waiting: 0 });
  });

  it('removes a task that waits for its next attempt', async () => {
    const server = await startTasksServer();
    const id = await submit(server);
    await (await openInbox(server.queue).next()).settle(retry(60_000));
    expect(await cancel(server, id)).to.deep.equal([204, '']);
    expect(server.queue.counts()).to.include({ accepted: 1, cancelled: 1, delayed: 0 });
  });

  it('asks a running task to end, as often as it is called', async () => {
    const server = await startTasksServer();
    const id = await submit(server);
    const delivery = await openInbox(server.queue).next();
    await delivery.markRunning();
    for (let times = 0; times < 2; times++) {
      expect(await cancel(server, id)).to.deep.equal([202, { id, status: 'cancelling' }]);
    }
    await delivery.settle({ kind: 'cancel' });
    expect(await cancel(server, id)).to.deep.equal(notFound);
  });

  it('refuses a task that has finished', async () => {
    const server = await startTasksServer();
    const [completed, failed] = [await submit(server), await submit(server)];
    const [first, second] = await openInbox(server.queue).take(2);
    const payload = first?.message.body as string;
    server.tasks.store({
      id: completed,
      payload,
      status: 'completed',
      result: '{"output":0}',
      created_at: 1,
      processed_at: 2,
    });
    // The row counts, even before the delivery is settled.
    expect(await cancel(server, completed)).to.deep.equal(finished);
    await first?.ack();
    await second?.settle(discard());
    expect(await cancel(server, completed)).to.deep.equal(finished);
    expect(await cancel(server, failed)).to.deep.equal(finished);
    expect(server.queue.counts()).to.include({ completed: 1, dead: 1, cancelled: 0 });
  });

  it('refuses a task that finishes at this moment', async () => {
    const server = await startTasksServer();
    const id = await submit(server);
    const delivery = await openInbox(server.queue).next();
    const { queue } = server;
    const { cancel: real } = queue;
    queue.cancel = async (...args) => {
      const payload = delivery.message.body;
      server.tasks.store({ id, payload, status: 'completed', result: '{"output":0}', created_at: 1, processed_at: 2 });
      await delivery.ack();
      return real.apply(queue, args);
    };
    expect(await cancel(server, id)).to.deep.equal(finished);
  });

  it('does not find what was never submitted', async () => {
    const server = await startTasksServer();
    for (const id of ['6f9619ff-8b86-4d01-b42d-00cf4fc964ff', 'x', '%00', '__proto__', `'%20OR%201=1`]) {
      expect(await cancel(server, id), id).to.deep.equal(notFound);
    }
  });

  it('leaves the task in the queue if the queue or the database fails', async () => {
    const server = await startTasksServer();
    const id = await submit(server);
    const { cancel: real } = server.queue;
    server.queue.cancel = () => Promise.reject(new Error('away'));
    expect(await cancel(server, id)).to.deep.equal([500, { error: 'queue unavailable' }]);
    server.queue.cancel = real;
    renameSync(server.file, `${server.file}.away`);
    expect(await cancel(server, id)).to.deep.equal([500, { error: 'database unavailable' }]);
    expect(server.queue.counts()).to.include({ cancelled: 0, waiting: 1 });
  });

  it('does not let a repeated submission with the same key bring the task back', async () => {
    const server = await startTasksServer();
    const init = { headers: { 'Idempotency-Key': 'k' } };
    const { body } = await server.submit(SUM, init);
    await cancel(server, body.id);
    const again = await server.submit(SUM, { headers: { ...init.headers, Prefer: 'wait=30' } });
    expect([again.status, again.body]).to.deep.equal([202, body]);
    expect(server.queue.counts()).to.include({ accepted: 1, waiting: 0 });
  });

  it('ends the wait for the task, and is reported to followers', async function () {
    // Below the wait of 30 s.
    this.timeout(20_000);
    const server = await startTasksServer();
    const events = await followEvents(server.url);
    const waiting = server.submit(SUM, { headers: { Prefer: 'wait=30' } });
    const accepted = await events.next();
    const id = accepted?.data.id;
    expect(await cancel(server, id)).to.deep.equal([204, '']);
    expect((await waiting).status).to.equal(202);
    const cancelled = await events.next();
    expect(cancelled).to.include({ event: 'cancelled' });
    expect(cancelled?.data).to.include({ id, status: 'cancelled' });
  });
});

describe('the progress of a task', () => {
  it('is shown and reported while the task runs', async () => {
    const server = await startTasksServer();
    const events = await followEvents(server.url);
    const id = await submit(server);
    const { delivery, markRunning } = await openInbox(server.queue).next();
    await markRunning();
    const progress = { fraction: 0.5, note: 'half' };
    server.queue.reportProgress(delivery, progress);
    const running = { id, status: 'running', attempt: 1, progress };
    expect((await request(`${server.tasksUrl}/${id}`)).body).to.deep.include(running);
    for (const name of ['accepted', 'started']) expect((await events.next())?.event).to.equal(name);
    const reported = await events.next();
    expect(reported).to.include({ event: 'progress' });
    expect(reported?.data).to.deep.include(running);
    server.queue.reportProgress(delivery, { fraction: 1 });
    const { data } = (await events.next()) ?? {};
    expect(data).to.deep.include({ ...running, progress: { fraction: 1 } });
  });
});

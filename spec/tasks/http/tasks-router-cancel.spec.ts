import { expect } from 'chai';
import { discard, retry } from '../../store/stage.ts';
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
    await server.settle(await server.take(), retry(Date.now() + 60_000));
    expect(await cancel(server, id)).to.deep.equal([204, '']);
    expect(await server.queue.counts()).to.include({ accepted: 1, cancelled: 1, delayed: 0 });
  });

  it('asks a running task to end, as often as it is called', async () => {
    const server = await startTasksServer();
    const id = await submit(server);
    const delivery = await server.take();
    server.queue.reportStart(delivery);
    for (let times = 0; times < 2; times++) {
      expect(await cancel(server, id)).to.deep.equal([202, { id, status: 'cancelling' }]);
    }
    await server.settle(delivery, { kind: 'cancel' });
    expect(await cancel(server, id)).to.deep.equal(notFound);
  });

  it('refuses a task that has finished', async () => {
    const server = await startTasksServer();
    const [completed, failed] = [await submit(server), await submit(server)];
    await server.complete(await server.take());
    await server.settle(await server.take(), discard());
    expect(await cancel(server, completed)).to.deep.equal(finished);
    expect(await cancel(server, failed)).to.deep.equal(finished);
    expect(await server.queue.counts()).to.include({ completed: 1, dead: 1, cancelled: 0 });
  });

  it('does not find what was never submitted', async () => {
    const server = await startTasksServer();
    for (const id of ['6f9619ff-8b86-4d01-b42d-00cf4fc964ff', 'x', '%00', '__proto__', `'%20OR%201=1`]) {
      expect(await cancel(server, id), id).to.deep.equal(notFound);
    }
  });

  it('leaves the task in the queue if the cancellation cannot be stored', async () => {
    const server = await startTasksServer();
    const id = await submit(server);
    server.queue.cancel = () => Promise.reject(new Error('away'));
    expect(await cancel(server, id)).to.deep.equal([500, { error: 'queue unavailable' }]);
    expect(await server.queue.counts()).to.include({ cancelled: 0, waiting: 1 });
  });

  it('does not let a repeated submission with the same key bring the task back', async () => {
    const server = await startTasksServer();
    const init = { headers: { 'Idempotency-Key': 'k' } };
    const { body } = await server.submit(SUM, init);
    await cancel(server, body.id);
    const again = await server.submit(SUM, { headers: { ...init.headers, Prefer: 'wait=30' } });
    expect([again.status, again.body]).to.deep.equal([202, body]);
    expect(await server.queue.counts()).to.include({ accepted: 1, waiting: 0 });
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
    const delivery = await server.take();
    server.queue.reportStart(delivery);
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

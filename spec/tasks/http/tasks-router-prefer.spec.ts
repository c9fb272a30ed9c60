import { renameSync } from 'node:fs';
import { expect } from 'chai';
import { discard } from '../../store/stage.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { request } from '../../support/program.ts';
import { until } from '../../support/until.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const SUM = '{"action":"sum"}';

function submitAndWait({ submit }: TasksServer, seconds: number, init: RequestInit = {}) {
  return submit(SUM, { ...init, headers: { Prefer: `wait=${seconds}`, ...init.headers } });
}

describe('POST /tasks with Prefer: wait', function () {
  // Below the clients' wait of 30 s, so a response that is only sent at the end of the wait fails the test.
  this.timeout(20_000);

  const server = onceForSuite(() => startTasksServer());

  it('answers 200 with the row as soon as the task is completed', async () => {
    const answering = submitAndWait(server(), 60);
    const row = await server().complete(await server().take());
    const { status, body, headers } = await answering;
    expect(status).to.equal(200);
    expect(body).to.deep.include(row);
    expect(body).to.deep.equal((await request(`${server().tasksUrl}/${row.id}`)).body);
    expect(headers.get('preference-applied')).to.equal('wait=30');
    expect(headers.get('location')).to.equal(`/tasks/${body.id}`);
  });

  it('answers 200 with the dead letter as soon as the task has failed', async () => {
    const answering = submitAndWait(server(), 30);
    const delivery = await server().take();
    await server().settle(delivery, discard());
    const { status, body, headers } = await answering;
    expect(status).to.equal(200);
    expect(body).to.include({ id: delivery.id, status: 'failed', reason: 'no' });
    expect(headers.get('preference-applied')).to.equal('wait=30');
    expect(body).to.deep.equal((await request(`${server().tasksUrl}/${body.id}`)).body);
  });

  it('answers 202 if the task is not completed in time', async () => {
    const { status, body, headers } = await submitAndWait(server(), 1);
    expect([status, body.status, headers.get('preference-applied')]).to.deep.equal([202, 'queued', null]);
    expect((await server().queued()).map(({ id }) => id)).to.deep.equal([body.id]);
  });

  it('answers 200 at once if the idempotency key belongs to a completed task', async () => {
    const init = { headers: { 'Idempotency-Key': 'one' } };
    const { body } = await server().submit(SUM, init);
    await server().complete(await server().take());
    const again = await submitAndWait(server(), 30, init);
    expect([again.status, again.body.id]).to.deep.equal([200, body.id]);
  });

  it('waits no longer for a client that has disconnected, and keeps its task', async () => {
    const own = await startTasksServer();
    const leave = new AbortController();
    const answering = submitAndWait(own, 30, { signal: leave.signal }).catch((error: Error) => error.name);
    await own.take();
    leave.abort();
    expect(await answering).to.equal('AbortError');
    await until(() => [...own.requests.series()].length === 1);
    expect((await own.queue.counts()).inFlight).to.equal(1);
  });

  it('answers 200 although the event of another node was missed', async () => {
    const own = await startTasksServer();
    Object.defineProperty(own.store, 'isShared', { value: true });
    const answering = submitAndWait(own, 30);
    const delivery = await own.take();
    await own.store.settle([{ delivery, settlement: { kind: 'complete', result: RESULT } }]);
    const { status, body } = await answering;
    expect(status).to.equal(200);
    expect(body).to.deep.include(own.store.rows.find(delivery.id));
  });

  for (const [title, end] of Object.entries<(own: TasksServer) => unknown>({
    'the service stops': ({ events }) => events.close(),
    'the queue cannot be read': async (own) => {
      const away = () => Promise.reject(new Error('away'));
      Object.assign(own.queue, { find: away, read: away });
    },
    'the row cannot be read': ({ file }) => renameSync(file, `${file}.away`),
  })) {
    it(`answers 202 at once if ${title}`, async () => {
      const own = await startTasksServer();
      const answering = submitAndWait(own, 30);
      const delivery = await own.take();
      await end(own);
      await own.settle(delivery, { kind: 'ack' });
      expect((await answering).status).to.equal(202);
    });
  }
});

describe('GET /tasks/{id} with Prefer: wait', function () {
  this.timeout(20_000);

  const server = onceForSuite(() => startTasksServer());
  const wait = (id: string, seconds: number) =>
    request(`${server().tasksUrl}/${id}`, { headers: { Prefer: `wait=${seconds}` } });

  it('answers as soon as the task ends, to each of many clients, and at once if it has ended', async () => {
    const { id } = (await server().submit(SUM)).body;
    const delivery = await server().take();
    const answering = Promise.all(Array.from({ length: 20 }, () => wait(id, 30)));
    expect((await wait(id, 1)).body).not.to.have.property('result');
    const row = await server().complete(delivery);
    for (const { status, body, headers } of [...(await answering), await wait(id, 30)]) {
      expect([status, headers.get('preference-applied')]).to.deep.equal([200, 'wait=30']);
      expect(body).to.deep.include(row);
    }
  });

  it('answers with the unfinished task after the wait, and 404 once it is cancelled', async () => {
    const { id } = (await server().submit(SUM)).body;
    expect((await wait(id, 1)).body.status).to.equal('queued');
    const answering = wait(id, 30);
    await request(`${server().tasksUrl}/${id}`, { method: 'DELETE' });
    expect((await answering).status).to.equal(404);
    expect((await wait('none', 30)).status).to.equal(404);
  });
});

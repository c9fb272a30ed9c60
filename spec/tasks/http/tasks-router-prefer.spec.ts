import { renameSync } from 'node:fs';
import { expect } from 'chai';
import { discard } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { eventually, until } from '../../support/until.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const SUM = '{"action":"sum"}';

function submitAndWait({ submit }: TasksServer, seconds: number, init: RequestInit = {}) {
  return submit(SUM, { ...init, headers: { Prefer: `wait=${seconds}`, ...init.headers } });
}

describe('POST /tasks with Prefer: wait', function () {
  // Below the clients' wait of 30 s, so a response that is only sent at the end of the wait fails the test.
  this.timeout(20_000);

  it('answers with the row when the task is done in time', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 60);
    const row = await server.complete(await server.take());
    const { status, body, headers } = await answering;
    expect({ status, body }).to.deep.equal({ status: 200, body: row });
    expect(headers.get('preference-applied')).to.equal('wait=30');
    expect(headers.get('location')).to.equal(`/tasks/${body.id}`);
  });

  it('answers as usual when it is not done in time', async () => {
    const server = await startTasksServer();
    const { status, body, headers } = await submitAndWait(server, 1);
    expect(status).to.equal(202);
    expect(body.status).to.equal('queued');
    expect(headers.get('preference-applied')).to.equal(null);
    expect((await server.queue.counts()).waiting).to.equal(1);
  });

  it('answers with the dead letter, and at once, when the task fails', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 30);
    const delivery = await server.take();
    await server.settle(delivery, discard());
    const { status, body, headers } = await answering;
    expect(status).to.equal(200);
    expect(body).to.include({ id: delivery.id, status: 'failed', reason: 'no' });
    expect(headers.get('preference-applied')).to.equal('wait=30');
    expect(body).to.deep.equal((await request(`${server.tasksUrl}/${body.id}`)).body);
  });

  it('answers as usual, and at once, when the task is cancelled', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 30);
    await eventually(
      () => server.queue.counts(),
      ({ waiting }) => waiting === 1,
    );
    const { body } = await request(`${server.url}/queue/tasks?state=queued`);
    await server.queue.cancel(body.tasks[0].id);
    expect((await answering).status).to.equal(202);
  });

  it('answers as usual, and at once, when the service stops', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 30);
    await server.take();
    server.events.close();
    expect((await answering).status).to.equal(202);
  });

  it('answers as usual when the queue cannot be asked', async () => {
    const server = await startTasksServer();
    const away = async () => {
      throw new Error('away');
    };
    Object.assign(server.queue, { find: away, read: away });
    const answering = submitAndWait(server, 30);
    await server.complete(await server.take());
    expect((await answering).status).to.equal(202);
  });

  it('answers as usual when the row cannot be read', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 30);
    const delivery = await server.take();
    renameSync(server.file, `${server.file}.away`);
    await server.settle(delivery, { kind: 'ack' });
    expect((await answering).status).to.equal(202);
  });

  it('answers with the row at once when its idempotency key names a task of before', async () => {
    const server = await startTasksServer();
    const init = { headers: { 'Idempotency-Key': 'one' } };
    const { body } = await server.submit(SUM, init);
    await server.complete(await server.take());
    const again = await submitAndWait(server, 30, init);
    expect([again.status, again.body.id]).to.deep.equal([200, body.id]);
  });

  it('answers with the row though the event of another node was missed', async () => {
    const server = await startTasksServer();
    Object.defineProperty(server.store, 'isShared', { value: true });
    const answering = submitAndWait(server, 30);
    const delivery = await server.take();
    await server.store.settle([{ delivery, settlement: { kind: 'complete', result: RESULT } }]);
    const { status, body } = await answering;
    expect({ status, body }).to.deep.equal({ status: 200, body: server.store.rows.find(delivery.id) });
  });

  it('waits no more for a client that is gone, whose task stays', async () => {
    const server = await startTasksServer();
    const leave = new AbortController();
    const answering = submitAndWait(server, 30, { signal: leave.signal }).catch((error: Error) => error.name);
    await server.take();
    leave.abort();
    expect(await answering).to.equal('AbortError');
    await until(() => [...server.requests.series()].length === 1);
    expect((await server.queue.counts()).inFlight).to.equal(1);
  });
});

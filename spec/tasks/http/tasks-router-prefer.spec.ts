import { expect } from 'chai';
import { discard, openInbox, type Received } from '../../drivers/inbox.ts';
import { request } from '../../support/program.ts';
import { until } from '../../support/until.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const SUM = '{"action":"sum"}';

function submitAndWait({ submit }: TasksServer, seconds: number, init: RequestInit = {}) {
  return submit(SUM, { ...init, headers: { Prefer: `wait=${seconds}`, ...init.headers } });
}

/** Waits for the next delivery of the queue. */
function take({ queue }: TasksServer): Promise<Received> {
  return openInbox(queue).next();
}

function rowOf({ message: { id, body: payload } }: Received) {
  return { id, payload, status: 'completed', result: '{"output":0}', created_at: 1, processed_at: 2 } as const;
}

describe('POST /tasks with Prefer: wait', function () {
  // Below the clients' wait of 30 s, so a response that is only sent at the end of the wait fails the test.
  this.timeout(20_000);

  it('answers with the row when the task is done in time', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 60);
    const delivery = await take(server);
    server.tasks.store(rowOf(delivery));
    await delivery.ack();
    const { status, body, headers } = await answering;
    expect({ status, body }).to.deep.equal({ status: 200, body: rowOf(delivery) });
    expect(headers.get('preference-applied')).to.equal('wait=30');
    expect(headers.get('location')).to.equal(`/tasks/${body.id}`);
  });

  it('answers as usual when it is not done in time', async () => {
    const server = await startTasksServer();
    const { status, body, headers } = await submitAndWait(server, 1);
    expect(status).to.equal(202);
    expect(body.status).to.equal('queued');
    expect(headers.get('preference-applied')).to.equal(null);
    expect(server.queue.counts().waiting).to.equal(1);
  });

  it('answers with the dead letter, and at once, when the task fails', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 30);
    const delivery = await take(server);
    await delivery.settle(discard());
    const { status, body, headers } = await answering;
    expect(status).to.equal(200);
    expect(body).to.include({ id: delivery.message.id, status: 'failed', reason: 'no' });
    expect(headers.get('preference-applied')).to.equal('wait=30');
    expect(body).to.deep.equal((await request(`${server.tasksUrl}/${body.id}`)).body);
  });

  it('answers as usual, and at once, when the task is cancelled', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 30);
    await until(() => server.queue.counts().waiting === 1);
    const { body } = await request(`${server.url}/queue/tasks?state=queued`);
    await server.queue.cancel(body.tasks[0].id);
    expect((await answering).status).to.equal(202);
  });

  it('answers as usual, and at once, when the service stops', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 30);
    await take(server);
    server.events.close();
    expect((await answering).status).to.equal(202);
  });

  it('answers as usual when the queue cannot be asked', async () => {
    const server = await startTasksServer();
    server.queue.find = async () => {
      throw new Error('away');
    };
    const answering = submitAndWait(server, 30);
    const delivery = await take(server);
    await delivery.ack();
    expect((await answering).status).to.equal(202);
  });

  it('answers as usual when the row cannot be read', async () => {
    const server = await startTasksServer();
    const answering = submitAndWait(server, 30);
    const delivery = await take(server);
    server.tasks.store(rowOf(delivery));
    server.database.close();
    await delivery.ack();
    expect((await answering).status).to.equal(202);
  });

  it('answers with the row at once when its idempotency key names a task of before', async () => {
    const server = await startTasksServer();
    const init = { headers: { 'Idempotency-Key': 'one' } };
    const { body } = await server.submit(SUM, init);
    const delivery = await take(server);
    server.tasks.store(rowOf(delivery));
    await delivery.ack();
    const again = await submitAndWait(server, 30, init);
    expect([again.status, again.body.id]).to.deep.equal([200, body.id]);
  });

  it('waits no more for a client that is gone, whose task stays', async () => {
    const server = await startTasksServer();
    const leave = new AbortController();
    const answering = submitAndWait(server, 30, { signal: leave.signal }).catch((error: Error) => error.name);
    await take(server);
    leave.abort();
    expect(await answering).to.equal('AbortError');
    await until(() => [...server.requests.series()].length === 1);
    expect(server.queue.counts().inFlight).to.equal(1);
  });
});

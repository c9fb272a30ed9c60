import { renameSync } from 'node:fs';
import { expect } from 'chai';
import { discard, retry } from '../../store/stage.ts';
import { request } from '../../support/program.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

/** Submits a task and takes its delivery from the queue. */
async function submitAndTake({ submit, take }: TasksServer) {
  const { body, headers } = await submit('{"action":"sum"}');
  const delivery = await take();
  return { id: body.id as string, location: headers.get('location') ?? '', delivery };
}

describe('GET /tasks/:id', () => {
  it('is where the 202 points to', async () => {
    const server = await startTasksServer();
    const before = Date.now();
    const { id, location, delivery } = await submitAndTake(server);
    expect(location).to.equal(`/tasks/${id}`);
    const { status, body, headers } = await request(server.url + location);
    const { accepted_at_ms, ...task } = body;
    const payload = delivery.body;
    expect({ status, task }).to.deep.equal({ status: 200, task: { id, status: 'queued', payload, history: [] } });
    expect(accepted_at_ms).to.be.within(before, Date.now());
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
  });

  it('tells how far a task has come', async () => {
    const server = await startTasksServer();
    const { id, location, delivery } = await submitAndTake(server);
    const look = async () => (await request(server.url + location)).body;
    const submitted = { payload: delivery.body, accepted_at_ms: delivery.acceptedAt };
    const startedAfter = Date.now();
    server.queue.reportStart(delivery);
    const { started_at_ms, ...running } = await look();
    expect(running).to.deep.equal({ id, status: 'running', attempt: 1, ...submitted, history: [] });
    expect(started_at_ms).to.be.within(startedAfter, Date.now());
    const before = Date.now() / 1000;
    await server.settle(delivery, retry(Date.now() + 60_000, 'query failed'));
    const { next_attempt_at, next_attempt_at_ms, history, ...retrying } = await look();
    expect(history.map(({ reason }: { reason: string }) => reason)).to.deep.equal(['query failed']);
    expect(retrying).to.deep.equal({ id, status: 'retrying', attempts: 1, reason: 'query failed', ...submitted });
    expect(Math.ceil(next_attempt_at_ms / 1000)).to.equal(next_attempt_at);
    expect(next_attempt_at)
      .to.satisfy(Number.isSafeInteger)
      .and.to.be.within(before + 60, Date.now() / 1000 + 61);
  });

  it('shows a waiting task though the rows cannot be read', async () => {
    const server = await startTasksServer();
    const { id, location } = await submitAndTake(server);
    renameSync(server.file, `${server.file}.away`);
    expect((await request(server.url + location)).body).to.include({ id, status: 'queued' });
  });

  it('shows the row of a completed task, exactly as the listing does', async () => {
    const server = await startTasksServer();
    const { id, location, delivery } = await submitAndTake(server);
    const row = await server.complete(delivery);
    expect(row).to.include({ id, payload: delivery.body, status: 'completed', result: RESULT });
    const { status, body } = await request(server.url + location);
    expect({ status, body }).to.deep.equal({ status: 200, body: row });
    expect((await request(server.tasksUrl)).body.tasks).to.deep.equal([body]);
  });

  it('shows the dead letter of a discarded task', async () => {
    const server = await startTasksServer();
    const before = Math.floor(Date.now() / 1000);
    const { id, location, delivery } = await submitAndTake(server);
    await server.settle(delivery, discard('data.text must be a string'));
    const { first_at, last_at, history, ...letter } = (await request(server.url + location)).body;
    const payload = delivery.body;
    const reason = 'data.text must be a string';
    expect(letter).to.deep.equal({ id, status: 'failed', payload, reason, attempts: 1, permanent: true });
    expect(history).to.have.length(1);
    expect(history[0]).to.include({ reason });
    expect(first_at)
      .to.satisfy(Number.isSafeInteger)
      .and.to.be.within(before, Date.now() / 1000);
    expect(last_at)
      .to.satisfy(Number.isSafeInteger)
      .and.to.be.within(first_at, Date.now() / 1000);
  });

  it('does not find what was never submitted', async () => {
    const { tasksUrl } = await startTasksServer();
    for (const id of [
      '6f9619ff-8b86-4d01-b42d-00cf4fc964ff',
      'x',
      '%00',
      '__proto__',
      `'%20OR%201=1`,
      'a'.repeat(500),
    ]) {
      const { status, body } = await request(`${tasksUrl}/${id}`);
      expect({ status, body }, id).to.deep.equal({ status: 404, body: { error: 'task not found' } });
    }
  });

  it('fails as the listing does when the database does', async () => {
    const { tasksUrl, runSql, file } = await startTasksServer();
    runSql('DROP TABLE tasks');
    const failed = await request(`${tasksUrl}/1`);
    expect([failed.status, failed.body]).to.deep.equal([500, { error: 'query failed' }]);
    renameSync(file, `${file}.away`);
    const gone = await request(`${tasksUrl}/1`);
    expect([gone.status, gone.body]).to.deep.equal([500, { error: 'database unavailable' }]);
  });

  it('takes HEAD and DELETE, and no other method', async () => {
    const { tasksUrl } = await startTasksServer();
    expect((await request(`${tasksUrl}/1`, { method: 'HEAD' })).status).to.equal(404);
    for (const method of ['POST', 'PATCH', 'PUT']) {
      const { status, body, headers } = await request(`${tasksUrl}/1`, { method });
      expect([status, body, headers.get('allow')]).to.deep.equal([
        405,
        { error: 'method not allowed' },
        'GET, HEAD, DELETE, OPTIONS',
      ]);
    }
  });
});

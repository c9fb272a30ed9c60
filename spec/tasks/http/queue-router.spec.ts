import { expect } from 'chai';
import { discard, openInbox } from '../../drivers/inbox.ts';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

/** Submits tasks and discards them in order. Returns their ids. */
async function discardTasks({ submit, queue }: TasksServer, count: number, data = '{}'): Promise<string[]> {
  const ids: string[] = [];
  for (let i = 0; i < count; i++) ids.push((await submit(`{"action":"sum","data":${data}}`)).body.id);
  for (const delivery of await openInbox(queue).take(count)) await delivery.settle(discard('bad data'));
  return ids;
}

describe('POST /queue/pause and /queue/resume', () => {
  it('pause and resume the queue, any number of times', async () => {
    const server = await startTasksServer();
    for (const [path, paused] of [
      ['pause', true],
      ['pause', true],
      ['resume', false],
      ['resume', false],
    ] as const) {
      const { status, body } = await request(`${server.url}/queue/${path}`, { method: 'POST' });
      expect([status, body]).to.deep.equal([200, { paused }]);
      expect(server.queue.paused).to.equal(paused);
      expect((await request(`${server.url}/queue`)).body).to.include({ paused });
    }
  });

  it('accept and cancel tasks while the queue is paused', async () => {
    const server = await startTasksServer();
    await server.queue.pause();
    const { status, body } = await server.submit('{"action":"sum"}');
    expect(status).to.equal(202);
    expect(server.queued()).to.deep.equal([]);
    expect((await request(`${server.tasksUrl}/${body.id}`, { method: 'DELETE' })).status).to.equal(204);
  });

  it('take no other method', async () => {
    const { url } = await startTasksServer();
    for (const path of ['pause', 'resume']) {
      const { status, headers } = await request(`${url}/queue/${path}`);
      expect([status, headers.get('allow')]).to.deep.equal([405, 'POST']);
    }
  });
});

describe('the dead letters', () => {
  it('are listed, the latest first, as GET /tasks/:id shows each', async () => {
    const server = await startTasksServer();
    expect((await request(`${server.url}/dead-letters`)).body).to.deep.equal({ dead_letters: [], count: 0 });
    const ids = await discardTasks(server, 3);
    const { status, body, headers } = await request(`${server.url}/dead-letters`);
    expect(status).to.equal(200);
    expect(headers.get('content-type')).to.equal('application/json; charset=utf-8');
    expect(body.count).to.equal(3);
    expect(body.dead_letters.map(({ id }: { id: string }) => id)).to.deep.equal(ids.toReversed());
    for (const letter of body.dead_letters) {
      expect(letter).to.have.all.keys('id', 'status', 'payload', 'reason', 'attempts', 'first_at', 'last_at');
      expect(letter).to.include({ status: 'failed', reason: 'bad data', attempts: 1 });
      expect((await request(`${server.tasksUrl}/${letter.id}`)).body).to.deep.equal(letter);
    }
  });

  it('are listed up to a hundred', async () => {
    const server = await startTasksServer({ maxLength: 1000 });
    const ids = await discardTasks(server, 103);
    const { body } = await request(`${server.url}/dead-letters`);
    expect(body.count).to.equal(100);
    const listed = body.dead_letters.map(({ id }: { id: string }) => id);
    expect(listed).to.deep.equal(ids.slice(3).reverse());
  });

  it('are redriven, and purged', async () => {
    const server = await startTasksServer();
    const [first, second] = await discardTasks(server, 2);
    const retried = await request(`${server.url}/dead-letters/${first}/retry`, { method: 'POST' });
    expect([retried.status, retried.body]).to.deep.equal([202, { id: first, status: 'queued' }]);
    expect(retried.headers.get('location')).to.equal(`/tasks/${first}`);
    expect((await request(`${server.tasksUrl}/${first}`)).body).to.include({ id: first, status: 'queued' });
    expect(server.queued().map(({ id }) => id)).to.deep.equal([first]);

    const deleted = await request(`${server.url}/dead-letters/${second}`, { method: 'DELETE' });
    expect([deleted.status, deleted.body]).to.deep.equal([204, '']);
    expect((await request(`${server.tasksUrl}/${second}`)).status).to.equal(404);
    expect(server.queue.counts()).to.include({ accepted: 2, dead: 0, dropped: 1 });
  });

  it('that are not there are not found', async () => {
    const server = await startTasksServer();
    const waiting = (await server.submit('{"action":"sum"}')).body.id;
    const notFound = [404, { error: 'dead letter not found' }];
    for (const id of [waiting, 'x', '%00', '__proto__']) {
      const retried = await request(`${server.url}/dead-letters/${id}/retry`, { method: 'POST' });
      expect([retried.status, retried.body], id).to.deep.equal(notFound);
      const deleted = await request(`${server.url}/dead-letters/${id}`, { method: 'DELETE' });
      expect([deleted.status, deleted.body], id).to.deep.equal(notFound);
    }
  });

  it('are not retried into a full queue', async () => {
    const server = await startTasksServer({ maxLength: 1 });
    const [id] = await discardTasks(server, 1);
    await server.submit('{"action":"sum"}');
    const { status, body, headers } = await request(`${server.url}/dead-letters/${id}/retry`, { method: 'POST' });
    expect([status, body]).to.deep.equal([500, { error: 'failed to queue task' }]);
    expect(headers.get('retry-after')).to.equal('1');
    expect((await request(`${server.url}/dead-letters`)).body.count).to.equal(1);
  });

  it('take the methods that make sense, and no others', async () => {
    const { url } = await startTasksServer();
    const allowed = { '/dead-letters': 'GET, HEAD', '/dead-letters/1': 'DELETE', '/dead-letters/1/retry': 'POST' };
    for (const [path, methods] of Object.entries(allowed)) {
      const { status, headers } = await request(url + path, { method: 'PUT' });
      expect([status, headers.get('allow')], path).to.deep.equal([405, methods]);
    }
  });
});

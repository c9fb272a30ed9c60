import { expect } from 'chai';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const submitAs = ({ submit }: TasksServer, key: string, body = '{"action":"sum"}') =>
  submit(body, { headers: { 'Idempotency-Key': key } });

describe('POST /tasks with an Idempotency-Key', () => {
  it('gives the same answer to the same submission, and makes one task', async () => {
    const server = await startTasksServer();
    const first = await submitAs(server, 'order-1');
    expect(first.status).to.equal(202);
    for (let i = 0; i < 3; i++) {
      const again = await submitAs(server, 'order-1');
      expect([again.status, again.body]).to.deep.equal([202, first.body]);
      expect(again.headers.get('location')).to.equal(first.headers.get('location'));
    }
    expect((await server.queued()).map(({ id }) => id)).to.deep.equal([first.body.id]);
  });

  it('takes a body for the same whose JSON is only spaced otherwise', async () => {
    const server = await startTasksServer();
    const { body } = await submitAs(server, 'k', '{"action":"sum","data":{"numbers":[1]}}');
    const again = await submitAs(server, 'k', ' { "action": "sum", "data": { "numbers": [ 1 ] } } ');
    expect([again.status, again.body]).to.deep.equal([202, body]);
  });

  it('refuses another body under the same key', async () => {
    const server = await startTasksServer();
    await submitAs(server, 'k', '{"action":"sum","data":{"numbers":[1]}}');
    for (const other of ['{"action":"sum","data":{"numbers":[2]}}', '{"action":"other","data":{"numbers":[1]}}']) {
      const { status, body } = await submitAs(server, 'k', other);
      expect([status, body]).to.deep.equal([422, { error: 'this Idempotency-Key belongs to another submission' }]);
    }
    expect((await server.queue.counts()).accepted).to.equal(1);
  });

  it('makes one task of each key, and one of each submission without', async () => {
    const server = await startTasksServer();
    await submitAs(server, 'a');
    await submitAs(server, 'b');
    await server.submit('{"action":"sum"}');
    await server.submit('{"action":"sum"}');
    expect(new Set((await server.queued()).map(({ id }) => id)).size).to.equal(4);
  });

  it('refuses a key that cannot be one, whatever the body', async () => {
    const server = await startTasksServer();
    for (const key of ['', ' ', 'two words', 'k'.repeat(256), 'ü']) {
      const { status, body } = await submitAs(server, key);
      const error = 'Idempotency-Key must have 1 to 255 visible characters';
      expect([status, body], key).to.deep.equal([400, { error }]);
    }
    expect((await server.queue.counts()).accepted).to.equal(0);
    expect((await submitAs(server, 'k'.repeat(255))).status).to.equal(202);
    expect((await submitAs(server, '"8e03978e-40d5-43dd-bc93-6f9a9d5b1f1c"')).status).to.equal(202);
  });

  it('uses up no key for what is refused', async () => {
    const server = await startTasksServer({ maxLength: 1 });
    expect((await submitAs(server, 'k', '{"data":{}}')).status).to.equal(400);
    expect((await submitAs(server, 'k')).status).to.equal(202);
    expect((await submitAs(server, 'next')).status).to.equal(500);
    await server.complete(await server.take());
    expect((await submitAs(server, 'next', '{"action":"other"}')).status).to.equal(202);
  });

  it('lets submissions with the same key wait for the first one', async () => {
    const server = await startTasksServer();
    const [first, second, other] = await Promise.all([
      submitAs(server, 'k'),
      submitAs(server, 'k'),
      submitAs(server, 'k', '{"action":"other"}'),
    ]);
    expect([first.status, second.status, other.status].toSorted()).to.deep.equal([202, 202, 422]);
    expect(await server.queue.counts()).to.include({ accepted: 1, waiting: 1 });
  });

  it('frees the key when the first submission could not be stored', async () => {
    const server = await startTasksServer();
    const { publish } = server.queue;
    server.queue.publish = () => Promise.reject(new Error('disk full'));
    expect(await submitAs(server, 'k')).to.deep.include({ status: 500, body: { error: 'failed to queue task' } });
    server.queue.publish = publish;
    expect((await submitAs(server, 'k', '{"action":"other"}')).status).to.equal(202);
    expect(await server.queue.counts()).to.include({ accepted: 1, waiting: 1 });
  });
});

import { expect } from 'chai';
import type { Journal } from '../../../main/tasks/queue/sqlite-journal.ts';
import { openInbox } from '../../drivers/inbox.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

/** A journal with the spec's `accept`, which may be slow or fail. */
class HeldJournal implements Journal {
  readonly accept: Journal['accept'];
  constructor(accept: () => Promise<void>) {
    this.accept = accept;
  }
  async update() {}
  async cancel() {}
  async cancelRunning() {}
  async complete() {}
  async deadLetter() {}
  async redrive() {}
  async purge() {}
  async purgeAll() {}
  async storePause() {}
  async close() {}
}

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
    expect(server.queued().map(({ id }) => id)).to.deep.equal([first.body.id]);
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
    expect(server.queue.counts().accepted).to.equal(1);
  });

  it('makes one task of each key, and one of each submission without', async () => {
    const server = await startTasksServer();
    await submitAs(server, 'a');
    await submitAs(server, 'b');
    await server.submit('{"action":"sum"}');
    await server.submit('{"action":"sum"}');
    expect(new Set(server.queued().map(({ id }) => id)).size).to.equal(4);
  });

  it('refuses a key that cannot be one, whatever the body', async () => {
    const server = await startTasksServer();
    for (const key of ['', ' ', 'two words', 'k'.repeat(256), 'ü']) {
      const { status, body } = await submitAs(server, key);
      const error = 'Idempotency-Key must have 1 to 255 visible characters';
      expect([status, body], key).to.deep.equal([400, { error }]);
    }
    expect(server.queue.counts().accepted).to.equal(0);
    expect((await submitAs(server, 'k'.repeat(255))).status).to.equal(202);
    expect((await submitAs(server, '"8e03978e-40d5-43dd-bc93-6f9a9d5b1f1c"')).status).to.equal(202);
  });

  it('uses up no key for what is refused', async () => {
    const server = await startTasksServer({ maxLength: 1 });
    expect((await submitAs(server, 'k', '{"data":{}}')).status).to.equal(400);
    expect((await submitAs(server, 'k')).status).to.equal(202);
    expect((await submitAs(server, 'next')).status).to.equal(500);
    await (await openInbox(server.queue).next()).ack();
    expect((await submitAs(server, 'next', '{"action":"other"}')).status).to.equal(202);
  });

  it('answers 409 while the first submission is under way', async () => {
    const writing = Promise.withResolvers<void>();
    const written = Promise.withResolvers<void>();
    const server = await startTasksServer({
      journal: new HeldJournal(() => {
        writing.resolve();
        return written.promise;
      }),
    });
    const first = submitAs(server, 'k');
    await writing.promise;
    const second = await submitAs(server, 'k');
    expect([second.status, second.body]).to.deep.equal([
      409,
      { error: 'a submission with this Idempotency-Key is under way' },
    ]);
    expect(second.headers.get('retry-after')).to.equal('1');
    expect((await submitAs(server, 'k', '{"action":"other"}')).status).to.equal(422);
    written.resolve();
    const { status, body } = await first;
    expect(status).to.equal(202);
    expect((await submitAs(server, 'k')).body).to.deep.equal(body);
    expect(server.queue.counts().accepted).to.equal(1);
  });

  it('frees the key when the first submission could not be written down', async () => {
    let writes = 0;
    const accept = async () => {
      if (++writes === 1) throw new Error('disk full');
    };
    const server = await startTasksServer({ journal: new HeldJournal(accept) });
    expect(await submitAs(server, 'k')).to.deep.include({ status: 500, body: { error: 'failed to queue task' } });
    expect((await submitAs(server, 'k', '{"action":"other"}')).status).to.equal(202);
    expect(server.queue.counts()).to.include({ accepted: 1, waiting: 1 });
  });
});

import { expect } from 'chai';
import { request } from '../../support/program.ts';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const submit = ({ url }: TasksServer, tasks: unknown, headers: Record<string, string> = {}) => {
  return request(`${url}/tasks/batch`, { method: 'POST', body: JSON.stringify({ tasks }), headers });
};

describe('POST /tasks/batch', () => {
  it('queues all tasks in their order, and answers with their ids', async () => {
    const server = await startTasksServer();
    const { status, body } = await submit(server, [
      { action: 'sum', data: { numbers: [1] } },
      { action: 'later', delay: 60 },
      { action: 'first', priority: 1 },
    ]);
    expect(status).to.equal(202);
    expect(body.tasks.map((task: { status: string }) => task.status)).to.deep.equal(['queued', 'queued', 'queued']);
    const [sum, later, first] = body.tasks.map(({ id }: { id: string }) => id);
    const queued = await server.queued();
    expect(queued.map(({ id }) => id)).to.deep.equal([first, sum]);
    const [, { body: payload = '' } = {}] = queued;
    expect(JSON.parse(payload)).to.deep.include({ id: sum, action: 'sum', data: { numbers: [1] } });
    expect(await server.find(later)).to.include({ status: 'scheduled' });
  });

  it('refuses a batch with wrong submissions, names all of them, and queues nothing', async () => {
    const schema = { type: 'object', required: ['n'], properties: { n: { type: 'number' } } };
    const server = await startTasksServer({ rules: { actions: new Map([['own', { schema }]]), rejectUnknown: true } });
    const right = { action: 'sum' };
    const wrong = [
      ...[{}, 1, null, { action: 'sum', data: 1 }, { action: 'sum', delay: -1 }, { action: 'other' }],
      ...[{ action: 'own' }, { action: 'sum', idempotency_key: 'a b' }],
    ];
    const { status, body } = await submit(server, [right, ...wrong, right]);
    expect([status, body.error]).to.deep.equal([400, 'invalid batch']);
    expect(body.errors).to.deep.equal([
      ...[1, 2, 3].map((index) => ({ index, error: 'action required' })),
      { index: 4, error: 'data must be an object' },
      { index: 5, error: 'delay must be seconds from 0 to 31622400' },
      { index: 6, error: 'unknown action' },
      { index: 7, error: 'invalid data', path: '/n', detail: 'must be present' },
      { index: 8, error: 'Idempotency-Key must have 1 to 255 visible characters' },
    ]);
    expect(await server.queued()).to.deep.equal([]);
  });

  it('refuses what is no batch', async () => {
    const server = await startTasksServer({ bodyLimit: 100_000 });
    for (const tasks of [undefined, null, {}, 'x', [], Array.from({ length: 1001 }, () => ({ action: 'a' }))]) {
      const { status, body } = await submit(server, tasks);
      expect([status, body.error]).to.deep.equal([400, 'tasks must be an array of 1 to 1000 submissions']);
    }
    const { body } = await submit(server, [{ action: 'sum' }], { 'Idempotency-Key': 'x' });
    expect(body.error).to.equal('give each task of a batch its idempotency_key, not the batch');
    expect(await server.queued()).to.deep.equal([]);
  });

  it('accepts a thousand tasks, which the submission thread parses', async () => {
    const server = await startTasksServer({ bodyLimit: 100_000, maxLength: 1000 });
    const { status, body } = await submit(
      server,
      Array.from({ length: 1000 }, (_, index) => ({ action: `${index}`, idempotency_key: `${index}` })),
    );
    expect([status, body.tasks.length]).to.deep.equal([202, 1000]);
    expect((await request(`${server.url}/queue`)).body).to.include({ accepted: 1000, waiting: 1000 });
    const full = await submit(server, [{ action: 'one more' }]);
    expect([full.status, full.body.error]).to.deep.equal([500, 'failed to queue task']);
    expect(full.headers.get('Retry-After')).to.equal('1');
  });

  it('accepts a task once for each idempotency_key, and refuses a key of another submission', async () => {
    const server = await startTasksServer();
    const [task, other] = [1, 2].map((n) => ({ action: 'sum', data: { n }, idempotency_key: 'order-17' }));
    const first = await submit(server, [task, { action: 'a' }]);
    const again = await submit(server, [{ action: 'b' }, task]);
    expect(again.body.tasks[1]).to.deep.equal(first.body.tasks[0]);
    const alone = await server.submit(JSON.stringify({ action: 'sum', data: { n: 1 } }), {
      headers: { 'Idempotency-Key': 'order-17' },
    });
    expect(alone.body).to.deep.equal(first.body.tasks[0]);
    const { status, body } = await submit(server, [{ action: 'c' }, other]);
    expect([status, body.errors]).to.deep.equal([
      400,
      [{ index: 1, error: 'this Idempotency-Key belongs to another submission' }],
    ]);
    expect((await server.queued()).map(({ action }) => action)).to.deep.equal(['sum', 'a', 'b']);
  });
});

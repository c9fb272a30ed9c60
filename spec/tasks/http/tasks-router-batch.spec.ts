import { expect } from 'chai';
import { startTasksServer, type TasksServer } from './tasks-server.ts';

const submit = ({ ask }: TasksServer, tasks: object) => ask('POST /tasks/batch', { tasks });

describe('POST /tasks/batch', () => {
  it('queues all tasks in their order, and answers with their ids', async () => {
    const server = await startTasksServer();
    const [status, { tasks }] = await submit(server, [
      { action: 'sum', data: { numbers: [1] } },
      { action: 'later', delay: 60 },
      { action: 'first', priority: 1 },
    ]);
    const [sum, later, first] = tasks.map(({ id }: { id: string }) => id);
    expect([status, tasks]).to.deep.equal([202, [sum, later, first].map((id) => ({ id, status: 'queued' }))]);
    const queued = await server.queued();
    expect(queued.map(({ id }) => id)).to.deep.equal([first, sum]);
    expect(JSON.parse(queued[1]?.body ?? '')).to.deep.include({ id: sum, action: 'sum', data: { numbers: [1] } });
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
    const errors = [
      ...[1, 2, 3].map((index) => ({ index, error: 'action required' })),
      { index: 4, error: 'data must be an object' },
      { index: 5, error: 'delay must be seconds from 0 to 31622400' },
      { index: 6, error: 'unknown action' },
      { index: 7, error: 'invalid data', path: '/n', detail: 'must be present' },
      { index: 8, error: 'Idempotency-Key must have 1 to 255 visible characters' },
    ];
    const refused = [400, { error: 'invalid batch', errors }];
    expect(await submit(server, [right, ...wrong, right])).to.deep.equal(refused);
    expect(await server.queued()).to.deep.equal([]);
  });

  it('accepts a thousand tasks, which the submission thread parses, and gives 64 in a row ids that begin alike', async () => {
    const server = await startTasksServer({ bodyLimit: 100_000, maxLength: 1000 });
    const thousand = Array.from({ length: 1000 }, (_, index) => ({ action: `${index}`, idempotency_key: `${index}` }));
    const [status, { tasks }] = await submit(server, thousand);
    expect([status, tasks.length]).to.deep.equal([202, 1000]);
    // An index keeps such ids together.
    const starts: string[] = tasks.map(({ id }: { id: string }) => id.slice(0, 4));
    expect(starts.filter((start, index) => start !== starts[index - 1]).length).to.be.within(9, 17);
    expect((await server.ask('GET /queue'))[1]).to.include({ accepted: 1000, waiting: 1000 });
  });

  it('accepts a task once for each idempotency_key, and refuses a key of another submission', async () => {
    const server = await startTasksServer();
    const [task, other] = [1, 2].map((n) => ({ action: 'sum', data: { n }, idempotency_key: 'order-17' }));
    const [, first] = await submit(server, [task, { action: 'a' }]);
    const [, again] = await submit(server, [{ action: 'b' }, task]);
    const alone = await server.ask('POST /tasks', { action: 'sum', data: { n: 1 } }, { 'Idempotency-Key': 'order-17' });
    for (const same of [again.tasks[1], alone[1]]) expect(same).to.deep.equal(first.tasks[0]);
    const errors = [{ index: 1, error: 'this Idempotency-Key belongs to another submission' }];
    expect(await submit(server, [{ action: 'c' }, other])).to.deep.equal([400, { error: 'invalid batch', errors }]);
    expect((await server.queued()).map(({ action }) => action)).to.deep.equal(['sum', 'a', 'b']);
  });
});

import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard, retry } from '../../store/settlements.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { request } from '../../support/program.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const notFound = [404, { error: 'task not found' }];

/** Submits a task and takes its delivery from the queue. */
async function submitAndTake(server: TasksServer) {
  const id = await server.submitTask();
  return { id, delivery: await server.take() };
}

describe('GET /tasks/:id', () => {
  const server = onceForSuite(() => startTasksServer());

  it('shows a task with its payload and history while it is queued, runs and is retried, as GET /queue/tasks summarises it', async () => {
    const { ask, find, queue, settle, take } = server();
    const before = systemClock.now();
    const id = await server().submitTask({ data: { text: 'ü'.repeat(300) } });
    /** Reads the task, which must be the only one of its state. */
    const shown = async (state: string) => {
      const { payload, history, ...task } = await find(id);
      const listed = {
        ...task,
        action: 'sum',
        payload: payload.slice(0, 256),
        payload_bytes: Buffer.byteLength(payload),
      };
      expect(await ask(`GET /queue/tasks?state=${state}`)).to.deep.equal([
        200,
        { tasks: [listed], count: 1, total: 1 },
      ]);
      return { ...task, payload, history };
    };
    const { accepted_at_ms, payload, ...queued } = await shown('queued');
    expect(queued).to.deep.equal({ id, status: 'queued', priority: 3, history: [] });
    expect(accepted_at_ms).to.be.within(before, systemClock.now());
    const delivery = await take();
    expect(payload).to.equal(delivery.body);
    expect(await ask('GET /queue/tasks?state=queued')).to.deep.equal([200, { tasks: [], count: 0, total: 0 }]);
    expect(await shown('running'), 'taken, not started').to.include({ status: 'queued' });

    const submitted = { id, priority: 3, payload, accepted_at_ms };
    queue.reportStart(delivery);
    queue.reportProgress(delivery, { fraction: 0.5 });
    const { started_at_ms, ...running } = await shown('running');
    const progress = { fraction: 0.5 };
    expect(running).to.deep.equal({ ...submitted, status: 'running', attempt: 1, progress, history: [] });
    expect(started_at_ms).to.be.within(accepted_at_ms, systemClock.now());

    await settle(delivery, retry(systemClock.now(), 'query failed'), { startedAt: 1000, endedAt: 1005 });
    const again = await take();
    queue.reportStart(again);
    queue.reportProgress(delivery, { fraction: 1 });
    const second = await shown('running');
    expect(second).to.include({ status: 'running', attempt: 2 }).and.to.not.have.property('progress');
    expect(second.history).to.deep.equal([{ started_at_ms: 1000, ended_at_ms: 1005, reason: 'query failed' }]);

    const due = systemClock.now() + 3_600_000;
    await settle(again, retry(due, 'no'));
    const { history, ...retrying } = await shown('retrying');
    expect(history.map(({ reason }: { reason: string }) => reason)).to.deep.equal(['query failed', 'no']);
    const next = { next_attempt_at_ms: due, next_attempt_at: Math.ceil(due / 1000) };
    expect(retrying).to.deep.equal({ ...submitted, status: 'retrying', attempts: 2, reason: 'no', ...next });
  });

  it('shows the row of a completed task, exactly as the listing does, and its attempts', async () => {
    const { ask, find, settle, take, complete } = server();
    const { id, delivery } = await submitAndTake(server());
    const { dueAt } = delivery;
    await settle(delivery, retry(systemClock.now(), 'no'), { startedAt: dueAt + 10, endedAt: dueAt + 15 });
    const row = await complete(await take(), { startedAt: dueAt + 20, endedAt: dueAt + 50 });
    expect(row).to.include({ id, payload: delivery.body, status: 'completed', result: RESULT });
    const history = [
      { started_at_ms: dueAt + 10, ended_at_ms: dueAt + 15, reason: 'no' },
      { started_at_ms: dueAt + 20, ended_at_ms: dueAt + 50, reason: null },
    ];
    expect(await find(id)).to.deep.equal({ ...row, attempts: 2, waited_ms: 10, ran_ms: 35, history });
    expect((await ask('GET /tasks'))[1].tasks).to.deep.equal([row]);
  });

  it('shows the traceparent of the submission, and ignores a malformed one', async () => {
    const { submitTask, take, find, settle } = server();
    const [trace, span] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
    const valid = `00-${trace}-${span}-01`;
    const malformed = [
      ...[`${valid}-more`, `${valid}, ${valid}`, valid.toUpperCase(), valid.slice(0, -1), `ff${valid.slice(2)}`],
      ...[`00-${'0'.repeat(32)}-${span}-01`, `00-${trace}-${'0'.repeat(16)}-01`, `01-${trace}-${span}-01x`, ''],
    ];
    for (const [traceparent, shown] of [
      [valid, valid],
      [`01-${trace}-${span}-01-more`, `01-${trace}-${span}-01`],
      ...malformed.map((each) => [each, undefined] as const),
    ] as const) {
      const id = await submitTask({}, { traceparent });
      const delivery = await take();
      const queued = await find(id);
      await settle(delivery, discard());
      for (const each of [queued, delivery, await find(id)]) expect(each.traceparent, traceparent).to.equal(shown);
    }
  });
});

describe('DELETE /tasks/:id', () => {
  const started = onceForSuite(() => startTasksServer());
  const cancel = (id: string) => started().ask(`DELETE /tasks/${id}`);

  it('removes a task that is queued or waits for its next attempt, which is unknown from then on', async () => {
    const { settle, submitTask, ask } = started();
    const retried = await submitAndTake(started());
    await settle(retried.delivery, retry(systemClock.now() + 3_600_000));
    for (const [index, id] of [retried.id, await submitTask()].entries()) {
      expect(await cancel(id)).to.deep.equal([204, '']);
      expect(await cancel(id)).to.deep.equal(notFound);
      expect(await ask(`GET /tasks/${id}`)).to.deep.equal(notFound);
      expect((await ask('GET /queue'))[1]).to.include({ cancelled: index + 1, delayed: 0 });
    }
  });

  it('asks a running task to end, each time that it is called, and refuses a task that has finished', async () => {
    const { queue, settle, complete } = started();
    const [running, done, failed] = [
      await submitAndTake(started()),
      await submitAndTake(started()),
      await submitAndTake(started()),
    ];
    queue.reportStart(running.delivery);
    const { id } = running;
    for (const _ of [1, 2]) expect(await cancel(id)).to.deep.equal([202, { id, status: 'cancelling' }]);
    await settle(running.delivery, { kind: 'cancel' });
    expect(await cancel(id)).to.deep.equal(notFound);
    await complete(done.delivery);
    await settle(failed.delivery, discard());
    for (const ended of [done, failed]) expect(await cancel(ended.id)).to.deep.equal([409, { error: 'task finished' }]);
  });
});

describe('a scheduled task', () => {
  it('is answered like any other, and shown with its time until it is due', async () => {
    const { submitTask, find, queued } = await startTasksServer();
    const before = systemClock.now();
    const id = await submitTask({ delay: 3600, priority: 2 });
    const { run_at_ms, ...task } = await find(id);
    expect(run_at_ms).to.be.within(before + 3_600_000, systemClock.now() + 3_600_000);
    expect(task).to.include({ id, status: 'scheduled', priority: 2 });
    expect(await queued()).to.deep.equal([]);
  });

  it('runs now on request, like a retrying one, and a task that waits or runs stays as it is', async () => {
    const { ask, tasksUrl, submitTask, settle, take, takeAll, complete } = await startTasksServer();
    const [scheduled, retried] = [await submitTask({ delay: 3600 }), await submitTask({})];
    await settle(await take(), retry(systemClock.now() + 3_600_000));
    for (const id of [retried, scheduled, scheduled])
      expect(await ask(`POST /tasks/${id}/run`)).to.deep.equal([202, { id, status: 'queued' }]);
    const { headers } = await request(`${tasksUrl}/${scheduled}/run`, { method: 'POST' });
    expect(headers.get('Location')).to.equal(`/tasks/${scheduled}`);
    const [first, second] = await takeAll(2);
    expect([first?.id, second?.id]).to.deep.equal([retried, scheduled]);
    expect((await ask(`POST /tasks/${scheduled}/run`))[1]).to.deep.equal({ id: scheduled, status: 'running' });
    await complete(second as NonNullable<typeof second>);
    expect(await ask(`POST /tasks/${scheduled}/run`)).to.deep.equal([409, { error: 'task finished' }]);
  });
});

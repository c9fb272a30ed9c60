import { renameSync } from 'node:fs';
import { expect } from 'chai';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard, retry } from '../../store/stage.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { request } from '../../support/program.ts';
import { followEvents } from './event-client.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const SUM = '{"action":"sum"}';
const notFound = [404, { error: 'task not found' }];
const cancelling = (id: string) => [202, { id, status: 'cancelling' }];
const finished = [409, { error: 'task finished' }];

/** Submits a task and takes its delivery from the queue. */
async function submitAndTake(server: TasksServer) {
  const id = await server.submitTask();
  return { id, delivery: await server.take() };
}

async function cancel({ tasksUrl }: TasksServer, id: string): Promise<[status: number, body: unknown]> {
  const { status, body } = await request(`${tasksUrl}/${id}`, { method: 'DELETE' });
  return [status, body];
}

describe('GET /tasks/:id', () => {
  const server = onceForSuite(() => startTasksServer());

  it('shows a task with its payload and history while it is queued, runs and is retried', async () => {
    const before = systemClock.now();
    const { id, delivery } = await submitAndTake(server());
    const { status, body } = await request(`${server().tasksUrl}/${id}`);
    const { accepted_at_ms, ...queued } = body;
    expect(status).to.equal(200);
    expect(queued).to.deep.equal({ id, status: 'queued', priority: 3, payload: delivery.body, history: [] });
    expect(accepted_at_ms).to.be.within(before, systemClock.now());

    const submitted = { priority: 3, payload: delivery.body, accepted_at_ms };
    server().queue.reportStart(delivery);
    const { started_at_ms, ...running } = await server().find(id);
    expect(running).to.deep.equal({ id, status: 'running', attempt: 1, ...submitted, history: [] });
    expect(started_at_ms).to.be.within(accepted_at_ms, systemClock.now());

    await server().settle(delivery, retry(systemClock.now(), 'query failed'), { startedAt: 1000, endedAt: 1005 });
    const again = await server().take();
    server().queue.reportStart(again);
    server().queue.reportProgress(delivery, { fraction: 1 });
    const second = await server().find(id);
    expect(second).to.include({ status: 'running', attempt: 2 }).and.to.not.have.property('progress');
    expect(second.history).to.deep.equal([{ started_at_ms: 1000, ended_at_ms: 1005, reason: 'query failed' }]);

    const due = systemClock.now() + 3_600_000;
    await server().settle(again, retry(due, 'no'));
    const { next_attempt_at, next_attempt_at_ms, history, ...retrying } = await server().find(id);
    expect(history.map(({ reason }: { reason: string }) => reason)).to.deep.equal(['query failed', 'no']);
    expect(retrying).to.deep.equal({ id, status: 'retrying', attempts: 2, reason: 'no', ...submitted });
    expect([next_attempt_at_ms, next_attempt_at]).to.deep.equal([due, Math.ceil(due / 1000)]);
  });

  it('shows the row of a completed task, exactly as the listing does, and its attempts', async () => {
    const { id, delivery } = await submitAndTake(server());
    const { dueAt } = delivery;
    const first = { startedAt: dueAt + 10, endedAt: dueAt + 15 };
    await server().settle(delivery, retry(systemClock.now(), 'no'), first);
    const row = await server().complete(await server().take(), { startedAt: dueAt + 20, endedAt: dueAt + 50 });
    expect(row).to.include({ id, payload: delivery.body, status: 'completed', result: RESULT });
    const history = [
      { started_at_ms: first.startedAt, ended_at_ms: first.endedAt, reason: 'no' },
      { started_at_ms: dueAt + 20, ended_at_ms: dueAt + 50, reason: null },
    ];
    expect(await server().find(id)).to.deep.equal({ ...row, attempts: 2, waited_ms: 10, ran_ms: 35, history });
    expect((await request(server().tasksUrl)).body.tasks).to.deep.equal([row]);
  });

  it('shows the traceparent of the submission, and ignores a malformed one', async () => {
    const [trace, span] = ['0af7651916cd43dd8448eb211c80319c', 'b7ad6b7169203331'];
    const valid = `00-${trace}-${span}-01`;
    const shown = async (traceparent: string) => {
      const { body } = await server().submit(SUM, { headers: { traceparent } });
      const delivery = await server().take();
      const queued = await server().find(body.id);
      await server().settle(delivery, discard());
      expect((await server().find(body.id)).traceparent)
        .to.equal(queued.traceparent)
        .and.equal(delivery.traceparent);
      return queued.traceparent;
    };
    expect(await shown(valid)).to.equal(valid);
    expect(await shown(`01-${trace}-${span}-01-more`)).to.equal(`01-${trace}-${span}-01`);
    const malformed = [
      ...[`${valid}-more`, `${valid}, ${valid}`, valid.toUpperCase(), valid.slice(0, -1), `ff${valid.slice(2)}`],
      ...[`00-${'0'.repeat(32)}-${span}-01`, `00-${trace}-${'0'.repeat(16)}-01`, `01-${trace}-${span}-01x`, ''],
    ];
    for (const traceparent of malformed) expect(await shown(traceparent), traceparent).to.equal(undefined);
  });

  it('and DELETE /tasks/:id answer 404 for a task that was never submitted', async () => {
    const ids = ['6f9619ff-8b86-4d01-b42d-00cf4fc964ff', 'x', '%00', '__proto__', `'%20OR%201=1`, 'a'.repeat(500)];
    for (const id of ids) {
      const { status, body } = await request(`${server().tasksUrl}/${id}`);
      expect([status, body], id).to.deep.equal(notFound);
      expect(await cancel(server(), id), id).to.deep.equal(notFound);
    }
    expect((await request(`${server().tasksUrl}/1`, { method: 'HEAD' })).status).to.equal(404);
  });

  it('shows a waiting task although the rows cannot be read', async () => {
    const { id } = await submitAndTake(server());
    renameSync(server().file, `${server().file}.away`);
    expect(await server().find(id)).to.include({ id, status: 'queued' });
    renameSync(`${server().file}.away`, server().file);
  });
});

describe('DELETE /tasks/:id', () => {
  const started = onceForSuite(() => startTasksServer());
  const cancelled = async () => (await request(`${started().url}/queue`)).body.cancelled as number;

  it('removes a task that is queued or waits for its next attempt, which is unknown from then on', async () => {
    const server = started();
    const submitAndRetry = async () => {
      const { id, delivery } = await submitAndTake(server);
      await server.settle(delivery, retry(systemClock.now() + 3_600_000));
      return id;
    };
    for (const make of [submitAndRetry, () => server.submitTask()]) {
      const id = await make();
      const before = await cancelled();
      expect(await cancel(server, id)).to.deep.equal([204, '']);
      expect(await cancel(server, id)).to.deep.equal(notFound);
      expect((await request(`${server.tasksUrl}/${id}`)).status).to.equal(404);
      const { body } = await request(`${server.url}/queue`);
      expect(body).to.include({ cancelled: before + 1, waiting: 0, delayed: 0 });
    }
  });

  it('asks a running task to end, each time that it is called', async () => {
    const { id, delivery } = await submitAndTake(started());
    started().queue.reportStart(delivery);
    for (let times = 0; times < 2; times++) expect(await cancel(started(), id)).to.deep.equal(cancelling(id));
    await started().settle(delivery, { kind: 'cancel' });
    expect(await cancel(started(), id)).to.deep.equal(notFound);
  });

  it('refuses a task that has finished', async () => {
    const [completed, failed] = [await submitAndTake(started()), await submitAndTake(started())];
    await started().complete(completed.delivery);
    await started().settle(failed.delivery, discard());
    for (const { id } of [completed, failed]) expect(await cancel(started(), id)).to.deep.equal(finished);
  });

  it('ends the wait for the task with 202, and is reported to followers', async function () {
    // Below the wait of 30 s.
    this.timeout(20_000);
    const events = await followEvents(started().url);
    const waiting = started().submit(SUM, { headers: { Prefer: 'wait=30' } });
    const id = (await events.next())?.data.id;
    expect(await cancel(started(), id)).to.deep.equal([204, '']);
    expect((await waiting).status).to.equal(202);
    const reported = await events.next();
    expect(reported?.event).to.equal('cancelled');
    expect(reported?.data).to.include({ id, status: 'cancelled' });
  });

  it('answers 500 and leaves the task in the queue if the cancellation cannot be stored', async () => {
    const server = await startTasksServer();
    const id = await server.submitTask();
    server.queue.cancel = () => Promise.reject(new Error('away'));
    expect(await cancel(server, id)).to.deep.equal([500, { error: 'queue unavailable' }]);
    expect((await server.queued()).map((message) => message.id)).to.deep.equal([id]);
  });
});

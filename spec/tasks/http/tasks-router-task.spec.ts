import { renameSync } from 'node:fs';
import { expect } from 'chai';
import fc from 'fast-check';
import type { Delivery } from '../../../db/task-store.ts';
import { preferredWait } from '../../../main/tasks/http/prepare-submission.ts';
import { systemClock } from '../../../workers/shared/clock.ts';
import { discard, retry } from '../../store/settlements.ts';
import { numbers } from '../../store/stage.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { type HttpResponse, request } from '../../support/program.ts';
import { until } from '../../support/until.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const notFound = [404, { error: 'task not found' }];

async function submitAndTake(server: TasksServer) {
  return { id: await server.submitTask(), delivery: await server.take() };
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
      const start = { payload: payload.slice(0, 256), payload_bytes: Buffer.byteLength(payload) };
      const [, listed] = await ask(`GET /queue/tasks?state=${state}`);
      expect(listed).to.deep.equal({ tasks: [{ ...task, action: 'sum', ...start }], count: 1, total: 1 });
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
      expect([await cancel(id), await cancel(id)]).to.deep.equal([[204, ''], notFound]);
      expect(await ask(`GET /tasks/${id}`)).to.deep.equal(notFound);
      expect((await ask('GET /queue'))[1]).to.include({ cancelled: index + 1, delayed: 0 });
    }
  });

  it('asks a running task to end, each time that it is called, and refuses a task that has finished', async () => {
    const { queue, settle, complete } = started();
    const { id, delivery } = await submitAndTake(started());
    queue.reportStart(delivery);
    for (const _ of [1, 2]) expect(await cancel(id)).to.deep.equal([202, { id, status: 'cancelling' }]);
    await settle(delivery, { kind: 'cancel' });
    expect(await cancel(id)).to.deep.equal(notFound);
    const [done, failed] = [await submitAndTake(started()), await submitAndTake(started())];
    await complete(done.delivery);
    await settle(failed.delivery, discard());
    for (const ended of [done, failed]) expect(await cancel(ended.id)).to.deep.equal([409, { error: 'task finished' }]);
  });
});

describe('a scheduled task', () => {
  it('is shown with its time, and runs on request as the last of its priority, like a retrying one, unless it runs or has finished', async () => {
    const { ask, tasksUrl, submitTask, settle, take, takeAll, complete, find } = await startTasksServer();
    const before = systemClock.now();
    const id = await submitTask({ delay: 3600, priority: 2 });
    const { run_at_ms, ...task } = await find(id);
    expect(run_at_ms).to.be.within(before + 3_600_000, systemClock.now() + 3_600_000);
    expect(task).to.include({ id, status: 'scheduled', priority: 2 });
    const retried = await submitTask({ priority: 2 });
    const delivery = await take();
    expect(delivery.id).to.equal(retried);
    await settle(delivery, retry(systemClock.now() + 3_600_000));
    const run = (which: string) => ask(`POST /tasks/${which}/run`);
    for (const each of [retried, id, id]) expect(await run(each)).to.deep.equal([202, { id: each, status: 'queued' }]);
    const { headers } = await request(`${tasksUrl}/${id}/run`, { method: 'POST' });
    expect(headers.get('Location')).to.equal(`/tasks/${id}`);
    const [first, second] = (await takeAll(2)) as [Delivery, Delivery];
    expect([first.id, second.id]).to.deep.equal([retried, id]);
    expect(await run(id)).to.deep.equal([202, { id, status: 'running' }]);
    await complete(second);
    expect(await run(id)).to.deep.equal([409, { error: 'task finished' }]);
  });
});

describe('POST /tasks/cancel', () => {
  const cancel = ({ ask }: TasksServer, selection: object) => ask('POST /tasks/cancel', selection);
  const cancelled = (count: number, remaining = 0) => [200, { count, remaining }];

  it('cancels the tasks with these ids, each once, or by action, state and limit key, all of which must match', async () => {
    const server = await startTasksServer();
    const ids: string[] = [];
    for (const fields of [
      {},
      { delay: 60 },
      { action: 'a', limit_key: 'x' },
      { action: 'a', delay: 60, limit_key: 'x' },
      { action: 'a', delay: 60 },
      { action: 'b', delay: 60, limit_key: 'x' },
    ])
      ids.push(await server.submitTask(fields));
    const selected = [ids[0], ids[1], ids[0], ...Array(997).fill('unknown')];
    for (const [selection, count] of [
      [{ ids: selected }, 2],
      [{ ids: selected }, 0],
      [{ action: 'a', state: 'scheduled', limit_key: 'x' }, 1],
      [{ state: 'limited' }, 0],
      [{ limit_key: 'x' }, 2],
      [{ action: 'a' }, 1],
    ] as const)
      expect(await cancel(server, selection)).to.deep.equal(cancelled(count));
    expect(await server.queue.counts()).to.include({ accepted: 6, cancelled: 6 });
  });

  it('cancels also tasks behind a slice without a match, but neither dead letters nor tasks that are accepted meanwhile', async () => {
    const server = await startTasksServer();
    const failed = await server.submitTask();
    await server.settle(await server.take(), discard());
    const early = await server.submitTask();
    const { store } = server.queue;
    const search = store.reads.search.bind(store);
    const later: string[] = [];
    store.reads.search = async (filter, after, limit) => {
      if (limit === 1 || after !== undefined) return search(filter, after, limit);
      later.push(await server.submitTask());
      // The first slice of the filter has no match.
      return { found: [], next: [Number.MAX_SAFE_INTEGER] };
    };
    expect(await cancel(server, { action: 'sum' })).to.deep.equal(cancelled(1));
    expect(await server.find(early)).to.deep.equal({ error: 'task not found' });
    expect(await server.find(failed)).to.include({ status: 'failed' });
    for (const id of later) expect(await server.find(id)).to.include({ status: 'queued' });
  });

  it('cancels in slices of 500, begins none after storing fails, says how many remain, and logs why', async () => {
    const server = await startTasksServer();
    const { store } = server.queue;
    const runAt = systemClock.now() + 60_000;
    const ids = numbers(1550);
    await Promise.all(ids.map((id) => server.queue.publish({ id, action: 'sum', body: '{}', runAt })));
    const { cancel: cancelOne } = store;
    let calls = 0;
    store.cancel = (id) => {
      calls += 1;
      return calls > 600 ? Promise.reject(new Error('the disk is full')) : cancelOne.call(store, id);
    };
    expect(await cancel(server, { state: 'scheduled' })).to.deep.equal(cancelled(600, 950));
    expect(calls).to.equal(1000);
    const [line] = server.lines;
    expect(line).to.deep.include({ msg: 'a bulk cancellation stopped on the way', count: 600, remaining: 950 });
    expect(line).to.have.nested.property('err.message', 'the disk is full');
    expect(await cancel(server, { all: true })).to.deep.equal([500, { error: 'queue unavailable' }]);
    calls = -300;
    expect(await cancel(server, { all: true }), 'in the last slice').to.deep.equal(cancelled(900, 50));
    store.cancel = cancelOne;
    expect(await cancel(server, { all: true })).to.deep.equal(cancelled(50));
  });
});

describe('a request with Prefer: wait', function () {
  // Below the clients' wait of 30 s, so a response that is only sent at the end of the wait fails the test.
  this.timeout(20_000);
  const server = onceForSuite(() => startTasksServer());
  const submit = (own: TasksServer, seconds = 30, { headers, ...init }: RequestInit = {}) =>
    own.submit('{"action":"sum"}', { ...init, headers: { Prefer: `wait=${seconds}`, ...headers } });
  const read = (id: string, seconds = 30) =>
    request(`${server().tasksUrl}/${id}`, { headers: { Prefer: `wait=${seconds}` } });

  for (const [end, settlement, shown] of [
    ['completed', { kind: 'complete', result: RESULT }, { result: RESULT }],
    ['failed', discard(), { reason: 'no' }],
  ] as const) {
    it(`is answered 200 as soon as the task has ${end}, to each of many clients, and at once from then on`, async () => {
      const { take, settle, find } = server();
      const submitting = submit(server(), 60);
      const delivery = await take();
      const { id } = delivery;
      const reading = Array.from({ length: 20 }, () => read(id));
      expect((await read(id, 1)).body.status).to.equal('queued');
      await settle(delivery, settlement);
      const task = await find(id);
      expect(task).to.include({ id, status: end, ...shown });
      for (const { status, body, headers } of await Promise.all([submitting, ...reading, read(id)])) {
        expect([status, headers.get('preference-applied')]).to.deep.equal([200, 'wait=30']);
        expect(body).to.deep.equal(task);
      }
      expect((await submitting).headers.get('location')).to.equal(`/tasks/${id}`);
    });
  }

  it('is answered 202 to a submission that is not completed in time', async () => {
    const { status, body, headers } = await submit(server(), 1);
    expect([status, body.status, headers.get('preference-applied')]).to.deep.equal([202, 'queued', null]);
    expect((await server().queued()).map(({ id }) => id)).to.deep.equal([body.id]);
  });

  it('is answered 404 once the task is cancelled, and at once if there is none', async () => {
    const id = await server().submitTask();
    const reading = read(id);
    await server().ask(`DELETE /tasks/${id}`);
    for (const answer of [reading, read('none')]) expect((await answer).status).to.equal(404);
  });

  it('is answered 200 at once if the idempotency key belongs to a completed task', async () => {
    const headers = { 'Idempotency-Key': 'one' };
    const id = await server().submitTask({}, headers);
    await server().complete(await server().take());
    const { status, body } = await submit(server(), 30, { headers });
    expect([status, body.id]).to.deep.equal([200, id]);
  });

  for (const when of ['before', 'during'])
    it(`waits no longer for a client that has disconnected ${when} the wait, and keeps its task, but no listener or timer`, async () => {
      const clock = new ManualClock();
      const own = await startTasksServer({ clock });
      const publish = own.queue.publish.bind(own.queue);
      own.queue.publish = async (...values) => {
        const published = await publish(...values);
        if (when === 'before') await until(() => own.sockets.size === 0);
        return published;
      };
      const leave = new AbortController();
      const answering = submit(own, 30, { signal: leave.signal }).catch((error: Error) => error.name);
      await own.take();
      if (when === 'during') await until(() => clock.timers > 1);
      leave.abort();
      expect(await answering).to.equal('AbortError');
      await until(() => [...own.requests.series()].length === 1);
      expect((await own.queue.counts()).inFlight).to.equal(1);
      expect(clock.timers, 'that of the retention of events').to.equal(1);
    });

  it('is answered 200 although the event of another node was missed, to a completed and to a failed task', async () => {
    const own = await startTasksServer();
    Object.defineProperty(own.store, 'isShared', { value: true });
    const answering = [submit(own), submit(own)];
    const [done, failed] = (await own.takeAll(2)) as [Delivery, Delivery];
    await own.store.settle([{ delivery: done, settlement: { kind: 'complete', result: RESULT } }]);
    await own.store.settle([{ delivery: failed, settlement: discard('no') }]);
    const shown = ({ status, body }: HttpResponse) => `${status} ${body.id} ${body.result ?? body.reason}`;
    const answers = (await Promise.all(answering)).map(shown);
    expect(answers).to.have.members([`200 ${done.id} ${RESULT}`, `200 ${failed.id} no`]);
  });

  for (const [title, end] of Object.entries<(own: TasksServer, delivery: Delivery) => unknown>({
    'the task is cancelled': ({ settle }, delivery) => settle(delivery, { kind: 'cancel' }),
    'the service stops': ({ events }) => events.close(),
    'the queue cannot be read': async (own) => {
      const away = () => Promise.reject(new Error('away'));
      Object.assign(own.queue, { find: away, read: away });
    },
    'the row cannot be read': ({ file }) => renameSync(file, `${file}.away`),
    'there is no room for the response': async ({ ask, complete, responses }, delivery) => {
      responses.used = responses.limit;
      await complete(delivery);
      expect(await ask(`GET /tasks/${delivery.id}`)).to.deep.equal([503, { error: 'server busy' }]);
    },
  })) {
    it(`is answered 202 at once if ${title}`, async () => {
      const own = await startTasksServer();
      const answering = submit(own);
      const delivery = await own.take();
      await end(own, delivery);
      await own.settle(delivery, { kind: 'ack' });
      expect((await answering).status).to.equal(202);
    });
  }
});

describe('the preference to wait', () => {
  it('is read in any form that RFC 7240 allows, is 30 s at most, and none if it is malformed', () => {
    const malformed = ['', 'wait', 'wait=', 'wait=-1', 'wait=1.5', 'wait=ten', 'await=5', 'wait=5s', 'return=minimal'];
    for (const [prefer, seconds] of Object.entries({
      ...{ 'wait=10': 10, 'wait=0': 0, 'wait=31': 30, 'wait=999999999': 30, 'Wait = "5"': 5 },
      ...{ 'respond-async, wait=3': 3, 'wait=3; because="of this"': 3, 'wait=1, wait=2': 1 },
      ...Object.fromEntries(malformed.map((text) => [text, 0])),
    }))
      expect(preferredWait({ prefer }), prefer).to.equal(seconds);
    expect(preferredWait({})).to.equal(0);
    fc.assert(fc.property(fc.string(), (prefer) => void expect(preferredWait({ prefer })).to.be.within(0, 30)));
  });
});

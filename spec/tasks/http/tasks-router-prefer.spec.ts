import { renameSync } from 'node:fs';
import { expect } from 'chai';
import fc from 'fast-check';
import type { Delivery } from '../../../db/task-store.ts';
import { preferredWait } from '../../../main/tasks/http/prepare-submission.ts';
import { discard } from '../../store/settlements.ts';
import { onceForSuite } from '../../support/cleanup.ts';
import { request } from '../../support/program.ts';
import { until } from '../../support/until.ts';
import { RESULT, startTasksServer, type TasksServer } from './tasks-server.ts';

const SUM = '{"action":"sum"}';

function submitAndWait({ submit }: TasksServer, seconds: number, init: RequestInit = {}) {
  return submit(SUM, { ...init, headers: { Prefer: `wait=${seconds}`, ...init.headers } });
}

// Below the clients' wait of 30 s, so a response that is only sent at the end of the wait fails the test.
const TIMEOUT_MS = 20_000;

describe('POST /tasks with Prefer: wait', function () {
  this.timeout(TIMEOUT_MS);
  const server = onceForSuite(() => startTasksServer());

  for (const [end, settlement, shown] of [
    ['completed', { kind: 'complete', result: RESULT }, { result: RESULT }],
    ['failed', discard(), { reason: 'no' }],
  ] as const) {
    it(`answers 200 with the task as soon as it has ${end}`, async () => {
      const answering = submitAndWait(server(), 60);
      const delivery = await server().take();
      await server().settle(delivery, settlement);
      const { status, body, headers } = await answering;
      expect([status, headers.get('preference-applied')]).to.deep.equal([200, 'wait=30']);
      expect(body).to.include({ id: delivery.id, status: end, ...shown });
      expect(body).to.deep.equal(await server().find(delivery.id));
      expect(headers.get('location')).to.equal(`/tasks/${body.id}`);
    });
  }

  it('answers 202 if the task is not completed in time', async () => {
    const { status, body, headers } = await submitAndWait(server(), 1);
    expect([status, body.status, headers.get('preference-applied')]).to.deep.equal([202, 'queued', null]);
    expect((await server().queued()).map(({ id }) => id)).to.deep.equal([body.id]);
  });

  it('answers 200 at once if the idempotency key belongs to a completed task', async () => {
    const init = { headers: { 'Idempotency-Key': 'one' } };
    const { body } = await server().submit(SUM, init);
    await server().complete(await server().take());
    const again = await submitAndWait(server(), 30, init);
    expect([again.status, again.body.id]).to.deep.equal([200, body.id]);
  });

  it('waits no longer for a client that has disconnected, and keeps its task', async () => {
    const own = await startTasksServer();
    const leave = new AbortController();
    const answering = submitAndWait(own, 30, { signal: leave.signal }).catch((error: Error) => error.name);
    await own.take();
    leave.abort();
    expect(await answering).to.equal('AbortError');
    await until(() => [...own.requests.series()].length === 1);
    expect((await own.queue.counts()).inFlight).to.equal(1);
  });

  it('answers 200 although the event of another node was missed', async () => {
    const own = await startTasksServer();
    Object.defineProperty(own.store, 'isShared', { value: true });
    const answering = submitAndWait(own, 30);
    const delivery = await own.take();
    await own.store.settle([{ delivery, settlement: { kind: 'complete', result: RESULT } }]);
    const { status, body } = await answering;
    expect([status, body.id, body.result]).to.deep.equal([200, delivery.id, RESULT]);
  });

  for (const [title, end] of Object.entries<(own: TasksServer, delivery: Delivery) => unknown>({
    'the task is cancelled': ({ settle }, delivery) => settle(delivery, { kind: 'cancel' }),
    'the service stops': ({ events }) => events.close(),
    'the queue cannot be read': async (own) => {
      const away = () => Promise.reject(new Error('away'));
      Object.assign(own.queue, { find: away, read: away });
    },
    'the row cannot be read': ({ file }) => renameSync(file, `${file}.away`),
  })) {
    it(`answers 202 at once if ${title}`, async () => {
      const own = await startTasksServer();
      const answering = submitAndWait(own, 30);
      const delivery = await own.take();
      await end(own, delivery);
      await own.settle(delivery, { kind: 'ack' });
      expect((await answering).status).to.equal(202);
    });
  }
});

describe('GET /tasks/{id} with Prefer: wait', function () {
  this.timeout(TIMEOUT_MS);
  const server = onceForSuite(() => startTasksServer());
  const wait = (id: string, seconds: number) =>
    request(`${server().tasksUrl}/${id}`, { headers: { Prefer: `wait=${seconds}` } });

  it('answers as soon as the task ends, to each of many clients, and at once if it has ended', async () => {
    const id = await server().submitTask();
    const delivery = await server().take();
    const answering = Promise.all(Array.from({ length: 20 }, () => wait(id, 30)));
    expect((await wait(id, 1)).body).not.to.have.property('result');
    const row = await server().complete(delivery);
    for (const { status, body, headers } of [...(await answering), await wait(id, 30)]) {
      expect([status, headers.get('preference-applied')]).to.deep.equal([200, 'wait=30']);
      expect(body).to.deep.include(row);
    }
  });

  it('answers with the unfinished task after the wait, and 404 once it is cancelled', async () => {
    const id = await server().submitTask();
    expect((await wait(id, 1)).body.status).to.equal('queued');
    const answering = wait(id, 30);
    await server().ask(`DELETE /tasks/${id}`);
    expect((await answering).status).to.equal(404);
    expect((await wait('none', 30)).status).to.equal(404);
  });
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

import { expect } from 'chai';
import { post, type RunningServices, request, untilAnswer, untilTask } from '../support/program.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { connect, type StreamClient } from '../support/websocket.ts';
import { followEvents } from '../tasks/http/event-client.ts';
import { startCluster } from './cluster.ts';

/** Records the prices of each second that a client receives from now on. */
function recordTicks({ socket }: StreamClient): Map<number, string> {
  const found = new Map<number, string>();
  socket.on('message', (text) => {
    const { type, data } = JSON.parse(text.toString());
    // If a snapshot and a tick carry the same second, the tick is the later message.
    if (type === 'ticker') found.set(data[0].timestamp, JSON.stringify(data));
  });
  return found;
}

async function expectSharedTask(one: RunningServices, other: RunningServices): Promise<void> {
  const events = await followEvents(other.tasks);
  // A node sends its events only once it knows that another one has followers.
  let isHeard = false;
  void events.next().then(() => {
    isHeard = true;
  });
  await until(async () => {
    await post(`${one.tasks}/tasks`, { action: 'sum' });
    return isHeard;
  });
  const { status, body } = await request(`${one.tasks}/tasks`, {
    method: 'POST',
    headers: { Prefer: 'wait=20' },
    body: '{"action":"uppercase","data":{"text":"wherever"}}',
  });
  expect({ status, result: body.result }).to.deep.equal({ status: 200, result: '{"output":"WHEREVER"}' });
  expect((await request(`${other.tasks}/tasks/${body.id}`)).body).to.deep.equal(body);
  const { attempts, waited_ms, ran_ms, history, ...row } = body;
  expect((await request(`${other.tasks}/tasks`)).body.tasks).to.deep.include(row);
  expect(history).to.have.length(attempts);
  expect(history[0].node).to.match(/^[\da-f-]{36}$/);
  const steps: unknown[] = [];
  while (steps.length < 3) {
    const step = await events.next();
    if (step?.data.id === body.id) steps.push(step?.event);
  }
  // Events of the other node may arrive before those of this node.
  expect(steps).to.have.members(['accepted', 'started', 'completed']);
}

async function expectSharedKeys(one: RunningServices, other: RunningServices): Promise<void> {
  const submit = (tasks: string, action: string) =>
    request(`${tasks}/tasks`, {
      method: 'POST',
      headers: { 'Idempotency-Key': 'order-1' },
      body: JSON.stringify({ action }),
    });
  const first = await submit(one.tasks, 'sum');
  const again = await submit(other.tasks, 'sum');
  expect([first.status, again.status]).to.deep.equal([202, 202]);
  expect(again.body).to.deep.equal(first.body);
  expect((await submit(other.tasks, 'another')).status).to.equal(422);
}

async function expectSharedDeadLetters(one: RunningServices, other: RunningServices): Promise<void> {
  const { body } = await post(`${one.tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
  const answer = await untilAnswer(`${other.tasks}/dead-letters`, ({ body }) => body.dead_letters.length > 0);
  expect(answer.body.dead_letters[0]).to.include({ id: body.id, status: 'failed', attempts: 1 });
  const retried = await request(`${other.tasks}/dead-letters/${body.id}/retry`, { method: 'POST' });
  expect(retried.status).to.equal(202);
  await untilTask(one.tasks, body.id, 'failed');
  const deleted = await request(`${one.tasks}/dead-letters/${body.id}`, { method: 'DELETE' });
  expect(deleted.status).to.equal(204);
  await untilAnswer(`${other.tasks}/tasks/${body.id}`, ({ status }) => status === 404);
}

/** Submits to both nodes in turn, and asserts that every task is completed with its own result. */
async function expectEachCompleted(one: RunningServices, other: RunningServices, count: number): Promise<void> {
  const answers = await Promise.all(
    Array.from({ length: count }, (_, index) =>
      post(`${(index % 2 === 0 ? one : other).tasks}/tasks`, { action: 'sum', data: { numbers: [index] } }),
    ),
  );
  for (const [index, { body }] of answers.entries()) {
    const task = await untilTask(other.tasks, body.id);
    expect(task.result).to.equal(JSON.stringify({ output: index }));
  }
}

/** Revokes a token on one node while a client uses it on the other node. */
async function expectSharedTokens(one: RunningServices, other: RunningServices): Promise<void> {
  expect(one.apiKey).to.equal(other.apiKey);
  const token = await one.token();
  const client = await connect(other.stream, { token });
  await client.nextOf('welcome');
  const revoked = await request(`${one.ticker}/auth/token`, {
    method: 'DELETE',
    headers: { Authorization: `Bearer ${token}` },
  });
  expect(revoked.status).to.equal(204);
  expect((await client.closed).code).to.equal(4001);
  await connect(other.stream, { token }).then(
    () => expect.fail('the token is still valid'),
    (refused) => expect(refused.status).to.equal(401),
  );
}

async function expectSamePrices(one: RunningServices, other: RunningServices): Promise<void> {
  const [here, there] = [
    recordTicks(await connect(one.stream, { token: await other.token() })),
    recordTicks(await connect(other.stream, { token: await one.token() })),
  ];
  const shared = () => [...here.keys()].filter((timestamp) => there.has(timestamp)).slice(1);
  await until(() => shared().length >= 2);
  for (const timestamp of shared()) expect(here.get(timestamp)).to.equal(there.get(timestamp));
}

async function expectReady({ admin }: RunningServices): Promise<void> {
  const { body } = await untilAnswer(`${admin}/readyz`, ({ status }) => status === 200);
  expect(body.checks).to.include.keys('notifications', 'auth_database', 'tasks_database', 'ticker');
}

describeWithPostgres('two nodes', () => {
  it('share API keys, tokens, prices, tasks with their events, idempotency keys and dead letters, and are ready', async () => {
    const cluster = await startCluster();
    const [one, other] = await Promise.all([cluster.node(), cluster.node()]);
    await expectSharedTokens(one, other);
    await expectSamePrices(one, other);
    await expectSharedTask(one, other);
    await expectSharedKeys(one, other);
    await expectSharedDeadLetters(one, other);
    await expectEachCompleted(one, other, 100);
    await expectReady(one);
  });

  it('share the ports of one machine', async () => {
    const cluster = await startCluster();
    const first = await cluster.node({ env: { REUSE_PORT: 'true' } });
    const ports = {
      TICKER_PORT: new URL(first.ticker).port,
      TASKS_PORT: new URL(first.tasks).port,
      REUSE_PORT: 'true',
    };
    const second = await cluster.node({ env: ports });
    expect(second.tasks).to.equal(first.tasks);
    for (let count = 0; count < 40; count++) await post(`${first.tasks}/tasks`, { action: 'x' });
    const accepted = async ({ admin }: typeof first) => {
      const { body } = await request(`${admin}/metrics`);
      const line = /http_route="\/tasks",http_response_status_code="202"\} (\d+)/.exec(
        body.match(/.*duration_seconds_count.*/g)?.join('\n') ?? '',
      );
      return Number(line?.[1] ?? 0);
    };
    const [here, there] = [await accepted(first), await accepted(second)];
    expect(here + there).to.equal(40);
    expect(Math.min(here, there)).to.be.greaterThan(0);
  });
});

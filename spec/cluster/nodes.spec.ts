import { expect } from 'chai';
import { post, request, startProgram } from '../support/program.ts';
import { describeWithServers } from '../support/servers.ts';
import { eventually } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { followEvents } from '../tasks/http/event-client.ts';
import { startCluster } from './cluster.ts';

async function twoNodes(env: Record<string, string> = {}) {
  const cluster = await startCluster();
  const [one, other] = await Promise.all([cluster.node({ env }), cluster.node({ env })]);
  if (one === undefined || other === undefined) throw new Error('no nodes');
  return { one, other, cluster };
}

describeWithServers('two nodes', () => {
  it('know the same keys and tokens, and what one revokes is dead on the other', async () => {
    const { one, other } = await twoNodes();
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
  });

  it('send the same prices at the same second', async () => {
    const { one, other } = await twoNodes();
    const [here, there] = await Promise.all(
      [one, other].map(async (node) => connect(node.stream, { token: await node.token() })),
    );
    const ticks = (client: typeof here) => {
      const found = new Map<number, string>();
      client?.socket.on('message', (text) => {
        const { type, data } = JSON.parse(text.toString());
        // If a snapshot and a tick carry the same second, the tick is the later message.
        if (type === 'ticker') found.set(data[0].timestamp, JSON.stringify(data));
      });
      return found;
    };
    const [first, second] = [ticks(here), ticks(there)];
    const shared = await eventually(
      () => [...first.keys()].filter((timestamp) => second.has(timestamp)).slice(1),
      (timestamps) => timestamps.length >= 2,
    );
    for (const timestamp of shared) expect(first.get(timestamp)).to.equal(second.get(timestamp));
  });

  it('share tasks: one accepts them, both process them, both report their events', async () => {
    const { one, other } = await twoNodes();
    const events = await followEvents(other.tasks);
    const { status, body } = await request(`${one.tasks}/tasks`, {
      method: 'POST',
      headers: { Prefer: 'wait=20' },
      body: '{"action":"uppercase","data":{"text":"wherever"}}',
    });
    expect({ status, result: body.result }).to.deep.equal({ status: 200, result: '{"output":"WHEREVER"}' });
    expect((await request(`${other.tasks}/tasks/${body.id}`)).body).to.deep.equal(body);
    expect((await request(`${other.tasks}/tasks`)).body.tasks).to.deep.equal([body]);
    const steps = [await events.next(), await events.next(), await events.next()];
    // Events of the other node may arrive before those of this node.
    expect(steps.map((step) => step?.event)).to.have.members(['accepted', 'started', 'completed']);
  });

  it('take a submission once under its idempotency key, whichever of them it reaches', async () => {
    const { one, other } = await twoNodes();
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
  });

  it('share dead letters: discarded on one, redriven by the other', async () => {
    const { one, other } = await twoNodes();
    const { body } = await post(`${one.tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
    const answer = await eventually(
      () => request(`${other.tasks}/dead-letters`),
      ({ body }) => body.dead_letters.length > 0,
    );
    expect(answer.body.dead_letters[0]).to.include({ id: body.id, status: 'failed', attempts: 1 });
    const retried = await request(`${other.tasks}/dead-letters/${body.id}/retry`, { method: 'POST' });
    expect(retried.status).to.equal(202);
    await eventually(
      () => request(`${one.tasks}/tasks/${body.id}`),
      (found) => found.body.status === 'failed',
    );
    const deleted = await request(`${one.tasks}/dead-letters/${body.id}`, { method: 'DELETE' });
    expect(deleted.status).to.equal(204);
    await eventually(
      () => request(`${other.tasks}/tasks/${body.id}`),
      ({ status }) => status === 404,
    );
  });

  it('take a thousand submissions and complete each once', async () => {
    const { one, other } = await twoNodes();
    const submit = (index: number) =>
      post(`${(index % 2 === 0 ? one : other).tasks}/tasks`, { action: 'sum', data: { numbers: [index] } });
    const ids: string[] = [];
    for (let from = 0; from < 1000; from += 50) {
      const answers = await Promise.all(Array.from({ length: 50 }, (_, each) => submit(from + each)));
      ids.push(...answers.map(({ body }) => body.id));
    }
    for (const [index, id] of ids.entries()) {
      const task = await eventually(
        () => request(`${other.tasks}/tasks/${id}`),
        ({ body }) => body.status === 'completed',
      );
      expect(task.body.result).to.equal(JSON.stringify({ output: index }));
    }
  });

  it('are ready, and name what they share', async () => {
    const { one } = await twoNodes();
    const answer = await eventually(
      () => request(`${one.admin}/readyz`),
      ({ status }) => status === 200,
    );
    expect(answer.body.checks).to.include.keys('nats', 'auth_database', 'tasks_database', 'ticker');
  });

  it('share the ports of one machine', async () => {
    const cluster = await startCluster();
    const first = await cluster.node({ env: { REUSE_PORT: '1' } });
    const ports = { TICKER_PORT: new URL(first.ticker).port, TASKS_PORT: new URL(first.tasks).port, REUSE_PORT: '1' };
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

  it('refuse to start without a server, in one line', async () => {
    const cluster = await startCluster();
    await cluster.nats.kill();
    const { errors, output, exited } = await startProgram({ env: cluster.env });
    expect((await exited).code).to.equal(1);
    expect(errors() + output()).to.match(/cannot reach NATS at 127\.0\.0\.1:\d+: [^\n]+: start it, or fix NATS_URL/);
  });
});

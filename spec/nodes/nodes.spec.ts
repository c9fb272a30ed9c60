import { expect } from 'chai';
import { afterTest, onceForSuite } from '../support/cleanup.ts';
import { Ledger, untilIdle } from '../support/ledger.ts';
import { post, type RunningServices, request, untilAnswer, untilTask } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { followEvents } from '../tasks/http/event-client.ts';
import { startCluster } from './cluster.ts';
import { expectSmoothPrices } from './parts.ts';

/** Actions of the nodes. `run` reports progress, and ends once its signal is aborted. `later` asks for a late retry. */
const HANDLERS = `
export default {
  async run(_, { signal, progress, log }) {
    log.info('running');
    progress(0.5, 'half');
    while (!signal.aborted) await new Promise((next) => setTimeout(next, 5));
    throw signal.reason;
  },
  later() { throw new RetryAfter(600_000, 'later'); },
};`;

const submit = async ({ tasks }: RunningServices, action: string, data: object = {}): Promise<string> =>
  (await post(`${tasks}/tasks`, { action, data })).body.id;

const cancel = ({ tasks }: RunningServices, id: string) => request(`${tasks}/tasks/${id}`, { method: 'DELETE' });

const isGone = ({ tasks }: RunningServices, id: string) =>
  untilAnswer(`${tasks}/tasks/${id}`, ({ status }) => status === 404);

/** Returns the node that runs the task, and then the other node. */
async function locate(nodes: readonly RunningServices[], id: string): Promise<[RunningServices, RunningServices]> {
  const runs = ({ lines }: RunningServices) => lines.some(({ msg, task }) => msg === 'running' && task === id);
  await until(() => nodes.some(runs));
  return [...nodes].sort((one, other) => Number(runs(other)) - Number(runs(one))) as [RunningServices, RunningServices];
}

/** Follows events at a node. The other one sends its events only once it knows of the follower. */
async function followBoth(node: RunningServices, other: RunningServices) {
  const events = await followEvents(node.tasks);
  let isHeard = false;
  // Only the node to which a task was submitted says that it was accepted.
  void (async () => {
    while ((await events.next())?.event !== 'accepted');
    isHeard = true;
  })();
  await until(async () => {
    await post(`${other.tasks}/tasks`, { action: 'sum' });
    return isHeard;
  });
  return events;
}

describeWithPostgres('two nodes', () => {
  const started = onceForSuite(async (): Promise<[RunningServices, RunningServices]> => {
    const { node } = await startCluster();
    const limits = { TASK_CONCURRENCY: '1', TASK_PREFETCH: '1', TASK_TIMEOUT_MS: '600000' };
    const env = { TASK_HANDLERS: await writeHandlers(HANDLERS), TASK_UNKNOWN_ACTIONS: 'process', ...limits };
    return Promise.all([node({ env }), node({ env })]);
  });

  it('cancel a task wherever it is: running on the other node, waiting or delayed', async () => {
    const nodes = started();
    const later = await submit(nodes[0], 'later');
    await untilTask(nodes[0].tasks, later, 'retrying');
    const first = await submit(nodes[0], 'run');
    const [runs, other] = await locate(nodes, first);
    const second = await submit(nodes[0], 'run');
    await untilTask(runs.tasks, second, 'running');
    const waiting = await submit(nodes[0], 'run');
    const events = await followBoth(runs, other);
    for (const node of nodes) {
      const { body } = await untilAnswer(`${node.tasks}/tasks/${first}`, ({ body }) => body.progress !== undefined);
      expect(body).to.deep.include({ status: 'running', progress: { fraction: 0.5, note: 'half' } });
    }
    expect((await cancel(other, waiting)).status).to.equal(204);
    expect((await cancel(other, later)).status).to.equal(204);
    expect(await cancel(other, first)).to.deep.include({ status: 202, body: { id: first, status: 'cancelling' } });
    expect((await cancel(runs, second)).status).to.equal(202);
    const ids = [waiting, later, first, second];
    const ended: string[] = [];
    while (ended.length < ids.length) {
      const event = await events.next();
      if (event?.event === 'cancelled') ended.push(event.data.id);
    }
    expect(ended).to.have.members(ids);
    for (const node of nodes) {
      for (const id of ids) await isGone(node, id);
      await untilIdle(node.tasks);
      const { accepted, completed, cancelled, dead, dropped } = (await request(`${node.tasks}/queue`)).body;
      expect([accepted - completed, cancelled, dead, dropped]).to.deep.equal([4, 4, 0, 0]);
      expect((await cancel(node, waiting)).status).to.equal(404);
    }
    const done = await submit(other, 'uppercase', { text: 'x' });
    await untilTask(runs.tasks, done, 'completed');
    expect((await cancel(runs, done)).status).to.equal(409);
  });

  it('know all tasks with their events, and are ready', async () => {
    const [one, other] = started();
    const events = await followBoth(other, one);
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
    const ready = await untilAnswer(`${one.admin}/readyz`, (answer) => answer.status === 200);
    expect(ready.body.checks).to.include.keys('notifications', 'auth_database', 'tasks_database', 'ticker');
  });

  it('share the ports of one machine', async () => {
    const cluster = await startCluster();
    const first = await cluster.node({ env: { REUSE_PORT: 'true' } });
    const ports = { TICKER_PORT: new URL(first.ticker).port, TASKS_PORT: new URL(first.tasks).port };
    const second = await cluster.node({ env: { ...ports, REUSE_PORT: 'true' } });
    expect(second.tasks).to.equal(first.tasks);
    for (let count = 0; count < 40; count++) await post(`${first.tasks}/tasks`, { action: 'x' });
    const accepted = async ({ admin }: typeof first) => {
      const { body } = await request(`${admin}/metrics`);
      return Number(/duration_seconds_count\{.*"\/tasks",http_response_status_code="202"\} (\d+)/.exec(body)?.[1] ?? 0);
    };
    const [here, there] = [await accepted(first), await accepted(second)];
    expect(here + there).to.equal(40);
    expect(Math.min(here, there)).to.be.greaterThan(0);
  });
});

describeWithPostgres('two nodes under load', () => {
  it(`whose leader stands still, and whose next leader is killed, settle every accepted task, and no second gets two prices ${seedNote}`, async () => {
    const cluster = await startCluster();
    // The first node to start becomes the leader.
    const stands = await cluster.node();
    const doomed = await cluster.node();
    const token = await doomed.token();
    const client = await connect(stands.stream, { token: await stands.token() });
    const other = await connect(doomed.stream, { token });
    /** Texts of the ticks of both clients by second. The first message to each client is a snapshot. */
    const seen = new Map<number, Set<string>>();
    for (const { socket } of [client, other])
      socket.on('message', (message) => {
        const text = message.toString();
        const { type, data } = JSON.parse(text);
        if (type === 'ticker') seen.set(data[0].timestamp, (seen.get(data[0].timestamp) ?? new Set()).add(text));
      });
    const grows = async (count: number, from = [...seen.keys()].at(-1) ?? 0) =>
      until(() => [...seen.keys()].filter((second) => second > from).length >= count);
    await grows(2);
    seen.clear();
    stands.child.kill('SIGSTOP');
    afterTest(() => stands.child.kill('SIGCONT'));
    await grows(2);
    stands.child.kill('SIGCONT');
    await doomed.logged(({ msg }) => msg.startsWith('this node is now the leader'));
    await grows(2);
    for (const [second, texts] of seen) expect([second, texts.size]).to.deep.equal([second, 1]);
    seen.clear();
    const ledger = new Ledger();
    const stops = [doomed, stands].map((node, index) => ledger.flood(node.tasks, randomFrom(index)));
    await ledger.grows(100);
    doomed.child.kill('SIGKILL');
    const killedAt = Date.now() / 1000;
    await ledger.grows(50);
    for (const stopped of stops) await stopped();
    await ledger.accountedFor(stands.tasks);
    // Ticks stamped more than a second after the kill cannot be those of the dead node.
    await grows(3, killedAt + 1);
    // The leader may have stored a tick that it did not send before it was killed.
    const texts = [...seen.values()].map(([text = '']) => text);
    expectSmoothPrices(texts, 1);
    const seconds = [...seen.keys()];
    expect(seconds).to.deep.equal(seconds.toSorted((one, another) => one - another));
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
    // The disconnected client reconnects to the other node with the same token.
    await other.closed;
    await (await connect(stands.stream, { token })).nextOf('ticker');
  });
});

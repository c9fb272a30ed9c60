import { join } from 'node:path';
import { expect } from 'chai';
import { afterTest, temporaryFolder } from '../support/cleanup.ts';
import { queueCounts, untilIdle } from '../support/ledger.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { post, type RunningServices, request, untilAnswer, untilTask } from '../support/program.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { followEvents } from '../tasks/http/event-client.ts';
import { type Cluster, startCluster } from './cluster.ts';

/**
 * Actions of the nodes. `run` reports progress, and ends once its signal is aborted and the file `data.file`, if any, exists. `later`
 * asks for a late retry.
 */
const HANDLERS = `
import { existsSync } from 'node:fs';
export default {
  async run({ file }, { signal, progress, log }) {
    log.info('running');
    progress(0.5, 'half');
    while (!signal.aborted || (file !== undefined && !existsSync(file))) await new Promise((next) => setTimeout(next, 5));
    throw signal.reason;
  },
  later() { throw new RetryAfter(600_000, 'later'); },
};`;

/** Starts two nodes with a thread each. */
async function startPair(cluster: Cluster) {
  const env = {
    TASK_HANDLERS: await writeHandlers(HANDLERS),
    TASK_CONCURRENCY: '1',
    TASK_PREFETCH: '1',
    TASK_CANCEL_GRACE_MS: '60000',
  };
  return [await cluster.node({ env }), await cluster.node({ env })] as const;
}

const submit = async ({ tasks }: RunningServices, action: string, data = {}): Promise<string> =>
  (await post(`${tasks}/tasks`, { action, data })).body.id;

const cancel = ({ tasks }: RunningServices, id: string) => request(`${tasks}/tasks/${id}`, { method: 'DELETE' });

/** Waits until a task is unknown to a node. */
const isGone = ({ tasks }: RunningServices, id: string) =>
  untilAnswer(`${tasks}/tasks/${id}`, ({ status }) => status === 404);

/** Returns the node that runs the task, and then the other node. */
async function locate(nodes: readonly RunningServices[], id: string): Promise<[RunningServices, RunningServices]> {
  const runs = ({ lines }: RunningServices) => lines.some(({ msg, task }) => msg === 'running' && task === id);
  await until(() => nodes.some(runs));
  return [...nodes].sort((one, other) => Number(runs(other)) - Number(runs(one))) as [RunningServices, RunningServices];
}

describeWithPostgres('a task that is cancelled on one of two nodes', () => {
  it('leaves the queue wherever it is: running on the other node, waiting or delayed', async () => {
    const cluster = await startCluster();
    const nodes = await startPair(cluster);
    const later = await submit(nodes[0], 'later');
    await untilTask(nodes[0].tasks, later, 'retrying');
    const first = await submit(nodes[0], 'run');
    const [runs, other] = await locate(nodes, first);
    const second = await submit(nodes[0], 'run');
    await untilTask(runs.tasks, second, 'running');
    const waiting = await submit(nodes[0], 'run');
    const events = await followEvents(runs.tasks);

    for (const node of nodes) {
      const { body } = await untilAnswer(`${node.tasks}/tasks/${first}`, ({ body }) => body.progress !== undefined);
      expect(body).to.deep.include({ status: 'running', progress: { fraction: 0.5, note: 'half' } });
    }
    expect((await cancel(other, waiting)).status).to.equal(204);
    expect((await cancel(other, later)).status).to.equal(204);
    const answer = await cancel(other, first);
    expect(answer).to.deep.include({ status: 202, body: { id: first, status: 'cancelling' } });
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
      expect(await untilIdle(node.tasks)).to.include({ accepted: 4, cancelled: 4, completed: 0, dead: 0, dropped: 0 });
      expect((await cancel(node, waiting)).status).to.equal(404);
      expect((await request(`${node.tasks}/tasks`)).body.tasks).to.deep.equal([]);
    }
    const done = await submit(other, 'uppercase', { text: 'x' });
    await untilTask(runs.tasks, done, 'completed');
    expect((await cancel(runs, done)).status).to.equal(409);
  });

  it('is deleted if its node is killed before it has ended', async () => {
    const cluster = await startCluster();
    const nodes = await startPair(cluster);
    const file = join(await temporaryFolder(), 'end');
    const id = await submit(nodes[0], 'run', { file });
    const [runs, other] = await locate(nodes, id);
    expect((await cancel(other, id)).status).to.equal(202);
    runs.child.kill('SIGKILL');
    await isGone(other, id);
    expect(await untilIdle(other.tasks)).to.include({ accepted: 1, cancelled: 1 });
  });

  it('is not cancelled while PostgreSQL is unavailable, and the client learns why', async () => {
    const postgres = await startPostgres();
    afterTest(() => postgres.remove());
    const cluster = await startCluster(postgres.url);
    const node = await cluster.node({ env: { TASK_HANDLERS: await writeHandlers(HANDLERS) } });
    const id = await submit(node, 'later');
    await untilTask(node.tasks, id, 'retrying');
    await postgres.stop('immediate');
    const refused = await untilAnswer(`${node.tasks}/tasks/${id}`, ({ status }) => status === 500, {
      method: 'DELETE',
    });
    expect(refused.body).to.deep.equal({ error: 'queue unavailable' });
    await postgres.start();
    await untilTask(node.tasks, id, 'retrying');
    expect(await queueCounts(node.tasks)).to.include({ accepted: 1, cancelled: 0 });
    expect((await cancel(node, id)).status).to.equal(204);
  });
});

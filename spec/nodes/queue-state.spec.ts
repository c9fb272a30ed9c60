import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { post, type RunningServices, request, untilAnswer } from '../support/program.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { startCluster, startNodes } from './cluster.ts';

const sum = (column: number[]) => column.reduce((total, count) => total + count, 0);

async function historySums({ tasks }: RunningServices): Promise<Record<string, number>> {
  const { accepted, completed, failed, depth } = (await request(`${tasks}/queue/history`)).body;
  return { accepted: sum(accepted), completed: sum(completed), failed: sum(failed), depth: depth.at(-1) ?? 0 };
}

describeWithPostgres('each of two nodes', () => {
  it('has a history of the tasks of both, and says that PostgreSQL is gone, and that it is back', async () => {
    const postgres = await startPostgres();
    afterTest(() => postgres.remove());
    const cluster = await startCluster(postgres.url);
    const nodes = await startNodes(cluster, 2);
    for (const { tasks } of nodes) {
      // The first count of a node, shortly after its start, is what later ones are compared with.
      await untilAnswer(`${tasks}/queue/history`, ({ body }) => body.seconds > 0);
    }
    for (const { tasks } of nodes) {
      for (let i = 0; i < 5; i++) await post(`${tasks}/tasks`, { action: 'sum' });
      await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
    }
    for (const node of nodes) {
      await until(async () => {
        const { completed, failed, depth } = await historySums(node);
        return completed === 10 && failed === 2 && depth === 0;
      });
      expect(await historySums(node)).to.include({ accepted: 12 });
      const { body } = await request(`${node.tasks}/queue`);
      expect(body).to.deep.include({ stalled: null, paused: false, oldest_age_seconds: null });
      expect(body.threads.total).to.equal(2);
    }
    await postgres.stop('immediate');
    for (const { tasks } of nodes) {
      const { body } = await untilAnswer(`${tasks}/queue`, ({ status }) => status === 500);
      expect(body).to.deep.equal({ error: 'queue unavailable' });
    }
    await postgres.start();
    for (const { tasks } of nodes) {
      await untilAnswer(`${tasks}/queue`, ({ status, body }) => status === 200 && body.stalled === null);
    }
  });
});

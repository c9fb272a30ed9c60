import { expect } from 'chai';
import { post, type RunningServices, request } from '../support/program.ts';
import { describeWithServers } from '../support/servers.ts';
import { eventually } from '../support/until.ts';
import { startCluster, startNodes } from './cluster.ts';

const sum = (column: number[]) => column.reduce((total, count) => total + count, 0);

async function historySums({ tasks }: RunningServices): Promise<Record<string, number>> {
  const { accepted, completed, failed, depth } = (await request(`${tasks}/queue/history`)).body;
  return { accepted: sum(accepted), completed: sum(completed), failed: sum(failed), depth: depth.at(-1) ?? 0 };
}

describeWithServers('each of two nodes', () => {
  it('has a history of the tasks of both, and reports within 5 s that NATS is gone, and that it is back', async () => {
    const cluster = await startCluster();
    const nodes = await startNodes(cluster, 2);
    for (const { tasks } of nodes) {
      for (let i = 0; i < 5; i++) await post(`${tasks}/tasks`, { action: 'sum' });
      await post(`${tasks}/tasks`, { action: 'sum', data: { numbers: ['1'] } });
    }
    for (const node of nodes) {
      await eventually(
        () => historySums(node),
        ({ completed, failed, depth }) => completed === 10 && failed === 2 && depth === 0,
      );
      expect(await historySums(node)).to.include({ accepted: 12 });
      const { body } = await request(`${node.tasks}/queue`);
      expect(body).to.deep.include({ stalled: null, paused: false, oldest_age_seconds: null });
      expect(body.threads.total).to.equal(2);
    }
    const before = Date.now() / 1000;
    await cluster.nats.kill();
    for (const { tasks } of nodes) {
      const { body } = await eventually(
        () => request(`${tasks}/queue`),
        (answer) => answer.body.stalled !== null,
      );
      expect(body.stalled.reason).to.equal('NATS cannot be reached');
      expect(body.stalled.since).to.be.within(Math.floor(before), before + 5);
    }
    await cluster.nats.start();
    for (const { tasks } of nodes) {
      await eventually(
        () => request(`${tasks}/queue`),
        (answer) => answer.body.stalled === null,
      );
    }
  });
});

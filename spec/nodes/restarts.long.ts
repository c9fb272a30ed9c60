import { expect } from 'chai';
import { Ledger } from '../support/ledger.ts';
import type { RunningServices } from '../support/program.ts';
import { randomFrom } from '../support/seed.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { until } from '../support/until.ts';
import { startCluster } from './cluster.ts';

describeWithPostgres('nodes that are restarted one after the other under load', () => {
  it('lose nothing and fail no request', async () => {
    const cluster = await startCluster();
    let running: readonly RunningServices[] = await Promise.all([cluster.node(), cluster.node()]);
    const ledger = new Ledger();
    const random = randomFrom(20);
    let over = false;
    const statuses = new Set<number | undefined>();
    /** Pending requests by node. */
    const open = new Map<RunningServices, number>();
    const client = async () => {
      for (let count = 0; !over; count++) {
        const node = running[count % running.length] as RunningServices;
        open.set(node, (open.get(node) ?? 0) + 1);
        statuses.add(await ledger.submit(node.tasks, random));
        open.set(node, (open.get(node) ?? 0) - 1);
      }
    };
    const load = Promise.all(Array.from({ length: 4 }, client));
    for (const old of running) {
      await ledger.grows(200);
      const fresh = await cluster.node();
      // Like a proxy: first stop sending requests to the old node, then stop the node.
      running = [...running.filter((node) => node !== old), fresh];
      await until(() => !open.get(old));
      expect((await old.end()).code).to.equal(0);
    }
    over = true;
    await load;
    expect([...statuses]).to.deep.equal([202]);
    await ledger.accountedFor((running[0] as RunningServices).tasks);
  });
});

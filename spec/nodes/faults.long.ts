import { expect } from 'chai';
import { Ledger } from '../support/ledger.ts';
import { post, type RunningServices, untilAnswer } from '../support/program.ts';
import { randomFrom } from '../support/seed.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { until } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { startCluster, startNodes } from './cluster.ts';

const task = { action: 'sum', data: { numbers: [1, 2] } };
const submit = (node: RunningServices) => post(`${node.tasks}/tasks`, task);
/** Submits tasks until one is accepted, or until one is refused. */
const untilSubmitted = ({ tasks }: RunningServices, isAccepted = true) =>
  untilAnswer(`${tasks}/tasks`, ({ status }) => (status === 202) === isAccepted, {
    method: 'POST',
    body: JSON.stringify(task),
  });

describeWithPostgres('nodes whose servers or connections fail, or that are restarted', () => {
  for (const [fault, what] of [
    ['cut', 'is cut off from PostgreSQL'],
    ['stall', 'gets no answer from PostgreSQL'],
  ] as const) {
    it(`of which one ${what}: the others continue and process its tasks, and it recovers`, async () => {
      const cluster = await startCluster();
      const way = await severable(cluster.env.DATABASE_URL);
      const stays = await cluster.node();
      const lost = await cluster.node({ env: { DATABASE_URL: way.url } });
      const client = await connect(lost.stream, { token: await lost.token() });
      const ledger = new Ledger();
      const stops = [stays, lost].map((node, index) => ledger.flood(node.tasks, randomFrom(10 + index)));
      await ledger.grows(300);
      way[fault]();
      await untilAnswer(
        `${lost.admin}/readyz`,
        ({ status, body }) => status === 503 && body.checks.notifications.state === 'failed',
      );
      await untilSubmitted(lost, false);
      await ledger.grows(200);
      expect((await submit(stays)).status).to.equal(202);
      way.mend();
      await untilSubmitted(lost);
      for (const stopped of stops) await stopped();
      await ledger.accountedFor(lost.tasks);
      expect(client.socket.readyState).to.equal(client.socket.OPEN);
      await untilAnswer(`${lost.admin}/readyz`, ({ status }) => status === 200);
    });
  }

  it('that are restarted one after the other under load: nothing is lost, and no request fails but on cut connections', async () => {
    const cluster = await startCluster();
    let running = await startNodes(cluster, 2);
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

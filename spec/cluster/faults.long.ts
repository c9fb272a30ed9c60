import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { post, type RunningServices, request } from '../support/program.ts';
import { randomFrom } from '../support/seed.ts';
import { describeWithServers } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { eventually } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { startCluster, startNodes } from './cluster.ts';

const submit = (node: RunningServices) => post(`${node.tasks}/tasks`, { action: 'sum', data: { numbers: [1, 2] } });

describeWithServers('nodes whose servers or connections fail, or that are restarted', () => {
  it('without NATS for a while: submissions are refused, and everything recovers automatically', async () => {
    const cluster = await startCluster();
    const [one, other] = (await startNodes(cluster, 2)) as [RunningServices, RunningServices];
    const client = await connect(one.stream, { token: await one.token() });
    const before = await submit(one);
    expect(before.status).to.equal(202);
    await cluster.nats.kill();
    const refused = await eventually(
      () => submit(one),
      ({ status }) => status !== 202,
    );
    expect({ status: refused.status, body: refused.body }).to.deep.equal({
      status: 500,
      body: { error: 'failed to queue task' },
    });
    await eventually(
      () => request(`${one.admin}/readyz`),
      ({ status, body }) => status === 503 && body.checks.nats.state === 'failed',
    );
    await cluster.nats.start();
    for (const node of [one, other]) {
      const { body } = await eventually(
        () => submit(node),
        ({ status }) => status === 202,
      );
      await eventually(
        () => request(`${other.tasks}/tasks/${body.id}`),
        (answer) => answer.body.status === 'completed',
      );
    }
    await eventually(
      () => request(`${other.tasks}/tasks/${before.body.id}`),
      (answer) => answer.body.status === 'completed',
    );
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
    const resumed = Date.now() / 1000;
    for (let timestamp = 0; timestamp < resumed; ) ({ timestamp } = (await client.nextOf('ticker')).data[0]);
    await connect(other.stream, { token: await other.token() });
    for (const node of [one, other]) {
      await eventually(
        () => request(`${node.admin}/readyz`),
        ({ status }) => status === 200,
      );
    }
  }).timeout(120_000);

  it('without PostgreSQL for a while: tasks wait, keys and rows cannot be looked up, and nothing is lost', async () => {
    const postgres = await startPostgres();
    afterTest(() => postgres.remove());
    const cluster = await startCluster(postgres.url);
    const [one, other] = (await startNodes(cluster, 2)) as [RunningServices, RunningServices];
    await postgres.stop('immediate');
    const listing = await eventually(
      () => request(`${one.tasks}/tasks`),
      ({ status }) => status !== 200,
    );
    expect({ status: listing.status, body: listing.body }).to.deep.equal({
      status: 500,
      body: { error: 'database unavailable' },
    });
    const exchange = await post(`${other.ticker}/auth/token`, { api_key: other.apiKey });
    expect({ status: exchange.status, body: exchange.body }).to.deep.equal({
      status: 500,
      body: { error: 'database unavailable' },
    });
    const accepted = await Promise.all([submit(one), submit(other), submit(one)]);
    for (const { status } of accepted) expect(status).to.equal(202);
    await eventually(
      () => request(`${one.admin}/readyz`),
      ({ status }) => status === 503,
    );
    await postgres.start();
    for (const { body } of accepted) {
      const { body: task } = await eventually(
        () => request(`${other.tasks}/tasks/${body.id}`),
        ({ status, body: found }) => status === 200 && found.status === 'completed',
      );
      expect(task.result).to.equal('{"output":3}');
    }
    expect(await other.token()).to.be.a('string');
  }).timeout(120_000);

  it('of which one is cut off from NATS: the others continue and process its tasks, and it recovers', async () => {
    const cluster = await startCluster();
    const way = await severable(cluster.nats.url.replace('nats:', 'http:'));
    const stays = await cluster.node();
    const cut = await cluster.node({ env: { NATS_URL: way.url.replace('http:', 'nats:') } });
    const ledger = new Ledger();
    let over = false;
    const loads = [stays, cut].map((node, index) =>
      ledger.flood(node.tasks, randomFrom(10 + index), { clients: 4, over: () => over }),
    );
    await ledger.grows(300);
    way.cut();
    await ledger.grows(200);
    expect((await submit(stays)).status).to.equal(202);
    way.mend();
    await eventually(
      () => submit(cut),
      ({ status }) => status === 202,
    );
    over = true;
    await Promise.all(loads);
    await ledger.accountedFor(cut.tasks);
  }).timeout(120_000);

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
      await eventually(
        () => open.get(old) ?? 0,
        (count) => count === 0,
      );
      old.child.kill('SIGTERM');
      expect((await old.exited).code).to.equal(0);
    }
    over = true;
    await load;
    expect([...statuses]).to.deep.equal([202]);
    await ledger.accountedFor((running[0] as RunningServices).tasks);
  }).timeout(120_000);
});

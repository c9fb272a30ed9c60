import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { post, type RunningServices, request } from '../support/program.ts';
import { randomFrom, seedNote } from '../support/seed.ts';
import { describeWithServers } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { eventually } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { type Cluster, startCluster } from './cluster.ts';

/** Nodes that are started together. */
async function nodes(cluster: Cluster, count: number, env: Record<string, string> = {}): Promise<RunningServices[]> {
  return Promise.all(Array.from({ length: count }, () => cluster.node({ env })));
}

const submit = (node: RunningServices) => post(`${node.tasks}/tasks`, { action: 'sum', data: { numbers: [1, 2] } });

describeWithServers('nodes', () => {
  it(`of which one is killed under load: every accepted task comes to its end, and the stream goes on ${seedNote}`, async () => {
    const cluster = await startCluster();
    const [doomed, stays] = (await nodes(cluster, 2)) as [RunningServices, RunningServices];
    const client = await connect(stays.stream, { token: await stays.token() });
    await client.nextOf('ticker');
    const token = await doomed.token();
    const cut = await connect(doomed.stream, { token });
    const ledger = new Ledger();
    let over = false;
    const loads = [doomed, stays].map((node, index) =>
      ledger.flood(node.tasks, randomFrom(index), { clients: 4, over: () => over }),
    );
    await ledger.grows(500);
    doomed.child.kill('SIGKILL');
    await ledger.grows(300);
    over = true;
    await Promise.all(loads);
    await ledger.accountedFor(stays.tasks);
    // Whoever made the prices is dead, or lives: they go on.
    for (let tick = 0; tick < 3; tick++) await client.nextOf('ticker');
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
    // Whoever was cut off connects elsewhere, with the token that it has.
    await cut.closed;
    const again = await connect(stays.stream, { token });
    await again.nextOf('ticker');
  }).timeout(120_000);

  it('whose maker of prices is killed: another goes on from its prices', async () => {
    const cluster = await startCluster();
    // The first one there makes them.
    const maker = await cluster.node();
    const other = await cluster.node();
    const client = await connect(other.stream, { token: await other.token() });
    const ticks: { timestamp: number; prices: number[] }[] = [];
    const next = async () => {
      const { data } = await client.nextOf('ticker');
      ticks.push({ timestamp: data[0].timestamp, prices: data.map(({ price }: { price: number }) => price) });
    };
    for (let count = 0; count < 3; count++) await next();
    maker.child.kill('SIGKILL');
    const killedAt = Date.now() / 1000;
    // The dead node has made none of these.
    while (ticks.filter(({ timestamp }) => timestamp > killedAt + 1).length < 3) await next();
    for (const [index, { timestamp, prices }] of ticks.entries()) {
      const before = ticks[index - 1];
      if (before === undefined) continue;
      expect(timestamp).to.be.at.least(before.timestamp);
      for (const [symbol, price] of prices.entries()) {
        const last = before.prices[symbol] as number;
        expect(Math.abs(price - last)).to.be.at.most(last * 0.001 + 0.01 + 1e-9);
      }
    }
  }).timeout(60_000);

  it('without NATS for a while: submissions are refused, and everything recovers by itself', async () => {
    const cluster = await startCluster();
    const [one, other] = (await nodes(cluster, 2)) as [RunningServices, RunningServices];
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
    const [one, other] = (await nodes(cluster, 2)) as [RunningServices, RunningServices];
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

  it('of which one is cut off from NATS: the others go on, what it held is done by them, and it comes back', async () => {
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
    let running = await nodes(cluster, 2);
    const ledger = new Ledger();
    const random = randomFrom(20);
    let over = false;
    const statuses = new Set<number | undefined>();
    /** Unanswered requests of each node. */
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
      // As a proxy does: first nothing more is sent there, then it stops.
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

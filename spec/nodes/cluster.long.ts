import { mock } from 'node:test';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { startPostgres } from '../support/postgres-server.ts';
import { post, type RunningServices, untilAnswer, untilTask } from '../support/program.ts';
import { randomFrom } from '../support/seed.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { severable } from '../support/severable.ts';
import { connect } from '../support/websocket.ts';
import { startCluster } from './cluster.ts';

const task = { action: 'sum', data: { numbers: [1, 2] } };
const submit = (node: RunningServices) => post(`${node.tasks}/tasks`, task);
/** Waits until a node is not ready because it receives no notifications. */
const untilNotificationsFail = ({ admin }: RunningServices) =>
  untilAnswer(`${admin}/readyz`, ({ status, body }) => status === 503 && body.checks.notifications.state === 'failed');
/** Submits tasks until one is accepted, or until one is refused. */
const untilSubmitted = ({ tasks }: RunningServices, isAccepted = true) =>
  untilAnswer(`${tasks}/tasks`, ({ status }) => (status === 202) === isAccepted, {
    method: 'POST',
    body: JSON.stringify(task),
  });

describeWithPostgres('nodes', () => {
  it('without PostgreSQL for a while: submissions and tokens are refused, sockets stay open, and everything recovers', async () => {
    const postgres = await startPostgres();
    afterTest(() => postgres.remove());
    const { node } = await startCluster();
    const start = () => node({ env: { DATABASE_URL: postgres.url } });
    const [one, other] = [await start(), await start()];
    const token = await one.token();
    const client = await connect(one.stream, { token });
    const before = await submit(one);
    expect(before.status).to.equal(202);
    await postgres.stop('immediate');
    const refused = await untilSubmitted(one, false);
    expect(refused).to.deep.include({ status: 500, body: { error: 'failed to queue task' } });
    expect(refused.headers.get('retry-after')).to.equal('1');
    const listing = await untilAnswer(`${one.tasks}/tasks`, ({ status }) => status !== 200);
    expect([listing.status, listing.body]).to.deep.equal([500, { error: 'database unavailable' }]);
    const exchange = await post(`${other.ticker}/auth/token`, { api_key: other.apiKey });
    expect(exchange).to.deep.include({ status: 500, body: { error: 'database unavailable' } });
    const headers = { Authorization: `Bearer ${token}` };
    const history = await untilAnswer(`${one.ticker}/prices/history`, ({ status }) => status !== 200, { headers });
    expect([history.status, history.body]).to.deep.equal([503, { error: 'token store unavailable' }]);
    await untilNotificationsFail(one);
    await postgres.start();
    for (const node of [one, other]) {
      const { body } = await untilSubmitted(node);
      expect((await untilTask(other.tasks, body.id)).result).to.equal('{"output":3}');
    }
    await untilTask(other.tasks, before.body.id);
    expect(client.socket.readyState).to.equal(client.socket.OPEN);
    const resumed = Date.now() / 1000;
    for (let timestamp = 0; timestamp < resumed; ) ({ timestamp } = (await client.nextOf('ticker')).data[0]);
    await connect(other.stream, { token: await other.token() });
    for (const node of [one, other]) {
      await untilAnswer(`${node.admin}/readyz`, ({ status }) => status === 200);
      for (const { msg } of node.lines) expect(msg).to.not.match(/is gone|stood still/);
    }
  });

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
      await untilNotificationsFail(lost);
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

  for (const [where, ...shifts] of [
    ['ahead', 30_000, 0],
    ['behind', 0, 30_000],
  ] as const) {
    it(`whose clocks differ by half a minute know the same tokens, send the same ticks, and share tasks if that which makes the ticks is ${where}`, async () => {
      const cluster = await startCluster();
      const start = (shift: number) =>
        cluster.node({
          nodeOptions: ['--import', new URL('clock-shift.ts', import.meta.url).href],
          env: { CLOCK_SHIFT_MS: String(shift) },
        });
      const [maker, other] = [await start(shifts[0]), await start(shifts[1])];
      const ticksOf = async (node: RunningServices, issuer: RunningServices) => {
        const client = await connect(node.stream, { token: await issuer.token() });
        const texts: string[] = [];
        while (texts.length < 6) texts.push(JSON.stringify((await client.nextOf('ticker')).data));
        return texts;
      };
      const [here, there] = await Promise.all([ticksOf(maker, other), ticksOf(other, maker)]);
      expect(here.filter((text) => there.includes(text)).length).to.be.at.least(3);
      const { body } = await submit(maker);
      expect((await untilTask(other.tasks, body.id)).result).to.equal('{"output":3}');
    });
  }

  it('that are restarted one after the other under load lose nothing and fail no request', async () => {
    const cluster = await startCluster();
    const ledger = new Ledger();
    const submissions = mock.method(ledger, 'submit');
    const start = async () => {
      const node = await cluster.node();
      return { node, stopped: ledger.flood(node.tasks, randomFrom(20), 2) };
    };
    const nodes = await Promise.all([start(), start()]);
    for (const old of [...nodes]) {
      await ledger.grows(200);
      nodes.push(await start());
      // Like a proxy: first stop sending requests to the old node, then stop the node.
      await old.stopped();
      expect((await old.node.end()).code).to.equal(0);
    }
    for (const { stopped } of nodes) await stopped();
    const statuses = await Promise.all(submissions.mock.calls.map(({ result }) => result));
    expect([...new Set(statuses)]).to.deep.equal([202]);
    for (const { node } of nodes.slice(3)) await ledger.accountedFor(node.tasks);
  });
});

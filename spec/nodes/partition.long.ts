import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { promisify } from 'node:util';
import { expect } from 'chai';
import { afterTest } from '../support/cleanup.ts';
import { Ledger } from '../support/ledger.ts';
import { post, request, untilTask } from '../support/program.ts';
import { describeWith, lackingProgram } from '../support/requirements.ts';
import { randomFrom } from '../support/seed.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { eventually } from '../support/until.ts';
import { connect } from '../support/websocket.ts';
import { startCluster } from './cluster.ts';
import { through } from './parts.ts';

const ip = (...args: string[]) => promisify(execFile)('ip', args);

/** Returns what this machine lacks for a network namespace, or undefined. */
function lackingNamespaces(): string | undefined {
  if (process.getuid?.() !== 0) return 'only root makes network namespaces';
  return lackingProgram('ip');
}

/** Creates a simulated host on two networks, one of which can silently drop all packets. It is removed after the test. */
async function makeNetworkNamespace() {
  const id = randomBytes(3).toString('hex');
  const name = `spec-${id}`;
  await ip('netns', 'add', name);
  afterTest(() => ip('netns', 'delete', name));
  await ip('-n', name, 'link', 'set', 'lo', 'up');
  const network = async (letter: string) => {
    const [near, far] = [`s${letter}${id}`, `t${letter}${id}`];
    const prefix = `10.${200 + Math.floor(Math.random() * 50)}.${Math.floor(Math.random() * 250)}`;
    await ip('link', 'add', near, 'type', 'veth', 'peer', 'name', far, 'netns', name);
    afterTest(() => ip('link', 'delete', near).catch(() => {}));
    await ip('address', 'add', `${prefix}.1/24`, 'dev', near);
    await ip('-n', name, 'address', 'add', `${prefix}.2/24`, 'dev', far);
    await ip('link', 'set', near, 'up');
    await ip('-n', name, 'link', 'set', far, 'up');
    return { far, near: `${prefix}.1`, address: `${prefix}.2` };
  };
  const clients = await network('c');
  const servers = await network('s');
  const set = (state: 'up' | 'down') => ip('-n', name, 'link', 'set', servers.far, state);
  return {
    /** Command prefix that runs a program in the namespace. */
    within: ['ip', 'netns', 'exec', name],
    /** Address of the namespace, on the network that is never cut. */
    address: clients.address,
    /** This host's address on the network that can be cut. */
    gateway: servers.near,
    /** Drops all packets in both directions without closing any connection. */
    cut: () => set('down').then(() => {}),
    mend: () => set('up').then(() => {}),
  };
}

describeWith(lackingNamespaces(), 'a node whose network loses everything', () => {
  describeWithPostgres('between it and the server', () => {
    it('is not ready, refuses submissions, and recovers; the other nodes process its tasks', async () => {
      const cluster = await startCluster();
      const network = await makeNetworkNamespace();
      const stays = await cluster.node();
      const lost = await cluster.node({
        within: network.within,
        host: network.address,
        env: {
          HOST: '0.0.0.0',
          ADMIN_HOST: '0.0.0.0',
          DATABASE_URL: (await through(cluster.env.DATABASE_URL, network.gateway)).url,
        },
      });
      const client = await connect(lost.stream, { token: await lost.token() });
      await client.nextOf('ticker');
      const ledger = new Ledger();
      const stops = [stays, lost].map((node, index) => ledger.flood(node.tasks, randomFrom(30 + index)));
      await ledger.grows(300);
      await network.cut();
      const ready = () => request(`${lost.admin}/readyz`);
      const submit = () => post(`${lost.tasks}/tasks`, { action: 'x' });
      await eventually(ready, ({ status, body }) => status === 503 && body.checks.notifications.state === 'failed');
      const refused = await eventually(submit, ({ status }) => status !== 202);
      expect([refused.status, refused.body]).to.deep.equal([500, { error: 'failed to queue task' }]);
      await ledger.grows(200);
      expect(client.socket.readyState).to.equal(client.socket.OPEN);
      await network.mend();
      await eventually(submit, ({ status }) => status === 202);
      for (const stopped of stops) await stopped();
      await ledger.accountedFor(lost.tasks);
      const mended = Date.now() / 1000;
      for (let timestamp = 0; timestamp < mended; ) ({ timestamp } = (await client.nextOf('ticker')).data[0]);
      await eventually(ready, ({ status }) => status === 200);
    });
  });
});

describeWithPostgres('nodes whose clocks differ by half a minute', () => {
  for (const [which, shifts] of [
    ['the one that makes the ticks is ahead', [30_000, 0]],
    ['the one that makes the ticks is behind', [0, 30_000]],
  ] as const) {
    it(`know the same tokens, send the same ticks, and share tasks: ${which}`, async () => {
      const cluster = await startCluster();
      const start = (shift: number) =>
        cluster.node({
          nodeOptions: ['--import', new URL('clock-shift.ts', import.meta.url).href],
          env: { CLOCK_SHIFT_MS: String(shift) },
        });
      const [maker, other] = [await start(shifts[0]), await start(shifts[1])];
      for (const [issuer, user] of [
        [maker, other],
        [other, maker],
      ] as const) {
        const client = await connect(user.stream, { token: await issuer.token() });
        await client.nextOf('ticker');
      }
      const clients = [maker, other].map(async (node) => connect(node.stream, { token: await node.token() }));
      const seen = await Promise.all(
        clients.map(async (connecting) => {
          const client = await connecting;
          const texts: string[] = [];
          while (texts.length < 6) texts.push(JSON.stringify((await client.nextOf('ticker')).data));
          return texts;
        }),
      );
      const [here = [], there = []] = seen;
      expect(here.filter((text) => there.includes(text)).length).to.be.at.least(3);
      const { body } = await post(`${maker.tasks}/tasks`, { action: 'sum', data: { numbers: [2, 3] } });
      const task = await untilTask(other.tasks, body.id);
      expect(task.result).to.equal('{"output":5}');
    });
  }
});

import { expect } from 'chai';
import { post, untilTask } from '../support/program.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { connect } from '../support/websocket.ts';
import { startCluster } from './cluster.ts';

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

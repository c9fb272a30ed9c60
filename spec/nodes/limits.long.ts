import { mkdir, readdir, readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { expect } from 'chai';
import { temporaryFolder } from '../support/cleanup.ts';
import { post, type RunningServices, request, untilAnswer } from '../support/program.ts';
import { randomFrom } from '../support/seed.ts';
import { describeWithPostgres } from '../support/servers.ts';
import { writeHandlers } from '../tasks/handlers/handling.ts';
import { startCluster, startNodes } from './cluster.ts';

const SECONDS = Number(process.env.LIMIT_SECONDS ?? 20);
const KILL_MS = 5000;
const KEYS = ['one', 'two', 'three', 'four'];
const LIMIT = { concurrency: 3, perKey: { concurrency: 1 } };
const RATE = { count: 5, seconds: 0.5 };

/** Handlers that count themselves in files: one for each that runs, and a line for each start. */
const source = (folder: string) => `
  import { appendFileSync, readdirSync, rmSync, writeFileSync } from 'node:fs';
  const isAlive = (file) => {
    try { return process.kill(Number(file.split('.')[1]), 0); } catch { return false; }
  };
  let runs = 0;
  export default {
    counted: {
      limits: ${JSON.stringify(LIMIT)},
      async handler({ key, ms }) {
        const own = key + '.' + process.pid + '.' + Math.random() + '.' + runs++;
        writeFileSync('${folder}/running/' + own, '');
        const running = readdirSync('${folder}/running').filter(isAlive);
        const ofKey = running.filter((file) => file.startsWith(key + '.'));
        if (running.length > ${LIMIT.concurrency} || ofKey.length > ${LIMIT.perKey.concurrency})
          appendFileSync('${folder}/exceeded', running + '\\n');
        await new Promise((next) => setTimeout(next, ms));
        rmSync('${folder}/running/' + own);
      },
    },
    rated: {
      limits: { rate: ${JSON.stringify(RATE)} },
      handler: () => appendFileSync('${folder}/starts', Date.now() + '\\n'),
    },
  };`;

describeWithPostgres('two nodes of which one is killed every five seconds', () => {
  it('never exceed a limit, and lose no task', async () => {
    const folder = await temporaryFolder();
    await mkdir(join(folder, 'running'));
    const cluster = await startCluster();
    const env = { TASK_HANDLERS: await writeHandlers(source(folder)), TASK_CONCURRENCY: '4', TASK_PREFETCH: '8' };
    const nodes = await startNodes(cluster, 2, env);
    const random = randomFrom(40);
    const accepted: string[] = [];
    let isOver = false;
    const client = async () => {
      for (let count = 0; !isOver; count += 1) {
        const data = { key: KEYS[random.below(KEYS.length)], ms: random.below(60) };
        const submission = count % 3 === 0 ? { action: 'rated' } : { action: 'counted', data, limit_key: data.key };
        const { tasks } = nodes[random.below(nodes.length)] as RunningServices;
        const answer = await post(`${tasks}/tasks`, submission).catch(() => undefined);
        if (answer?.status === 202) accepted.push(answer.body.id);
        await setTimeout(50);
      }
    };
    const clients = Promise.all([client(), client(), client()]);
    for (let killed = 0; killed < SECONDS * 1000; killed += KILL_MS) {
      await setTimeout(KILL_MS);
      const place = random.below(nodes.length);
      const node = nodes[place] as RunningServices;
      await node.end('SIGKILL');
      nodes[place] = await cluster.node({ env });
    }
    isOver = true;
    await clients;
    const [{ tasks }] = nodes as [RunningServices];
    await untilAnswer(`${tasks}/queue`, ({ body }) => body.accepted === body.completed + body.dead);
    for (const id of accepted) {
      const { body } = await request(`${tasks}/tasks/${id}`);
      expect(body.status, `status of ${id}`).to.be.oneOf(['completed', 'failed']);
    }
    expect(await readdir(folder)).to.not.include('exceeded');
    const starts = (await readFile(join(folder, 'starts'), 'utf8')).trim().split('\n').map(Number);
    const sorted = starts.toSorted((one, other) => one - other);
    // The clocks of two processes differ by a few milliseconds.
    const isClose = (time: number, index: number) =>
      (sorted[index + RATE.count] ?? Infinity) < time + RATE.seconds * 1000 - 5;
    expect(sorted.filter(isClose), 'starts within the time of the rate').to.deep.equal([]);
  }).timeout(SECONDS * 1000 + 300_000);
});

import { setTimeout } from 'node:timers/promises';
import { Client } from 'pg';
import { StreamClient } from '../../load/stream-client.ts';
import { afterTest } from '../../support/cleanup.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { type RunningServices, startServices } from '../../support/program.ts';
import type { Figure } from '../figure.ts';
import { startRedis } from '../redis.ts';
import { runQueue, streamOf } from '../server.ts';

const NODES = 2;
const TOKEN_KEY = 'the key that all nodes of a bench share';
const PREFETCH = 'product, prefetch 50';
const DURABLE = 'BullMQ, appendfsync always';

/** Compares two nodes with two processes of BullMQ on one Redis, and of two queues that keep their tasks in PostgreSQL. */
export function nodes(count: number, ticks: number): Figure {
  const storeRows = (name: string, url: string, env: Record<string, string> = {}) =>
    measureRows(name, count, url, { DATABASE_URL: url, ...env });
  const bullMq = async (...settings: string[]) =>
    runQueue('bullmq', count, { nodes: NODES, args: [await startRedis(...settings)] });
  const product = { TOKEN_KEY, QUEUE_MAX_LENGTH: `${count}` };
  const worked = { key: 'worked', unit: '/s' };
  return {
    name: `${NODES} nodes: ${count} tasks from submission to row, and ${ticks} ticks`,
    contenders: {
      product: async () => {
        const url = await newDatabase();
        const rates = await storeRows('product', url, product);
        return { ...rates, ...(await stream({ DATABASE_URL: url, TOKEN_KEY }, ticks)) };
      },
      [PREFETCH]: async () => storeRows('product', await newDatabase(), { ...product, TASK_PREFETCH: '50' }),
      BullMQ: () => bullMq('--appendonly', 'no'),
      [DURABLE]: () => bullMq('--appendonly', 'yes', '--appendfsync', 'always'),
      'graphile-worker': async () => storeRows('graphile-worker', await newDatabase()),
      'pg-boss': async () => storeRows('pg-boss', await newDatabase()),
    },
    readings: [
      { ...worked, name: 'tasks, submission to stored row', target: { atLeast: 4000 } },
      { ...worked, name: 'the same, beside BullMQ', beside: DURABLE },
      { ...worked, name: 'the same, by a BullMQ that loses them', beside: 'BullMQ' },
      { ...worked, name: 'the same, by a queue in PostgreSQL', beside: 'graphile-worker' },
      { ...worked, name: 'the same, by one that fetches batches', beside: 'pg-boss' },
      { ...worked, name: 'the same, TASK_PREFETCH=50', of: PREFETCH, target: { atLeast: 8000 } },
      { key: 'skew', name: 'one tick on one node and on the other, median', unit: 'ms' },
      { key: 'largestSkew', name: 'the same, at most', unit: 'ms' },
      { key: 'failover', name: 'between two ticks when their maker is killed', unit: 'ms', target: { atMost: 4000 } },
    ],
  };
}

/** Starts a PostgreSQL server for one measurement. Returns its URL. */
async function newDatabase(): Promise<string> {
  const postgres = await startPostgres();
  afterTest(() => postgres.remove());
  return postgres.url;
}

/** Measures {@link runQueue}. @throws {Error} if the number of rows stored is not the number of tasks */
async function measureRows(name: string, count: number, url: string, env: Record<string, string>) {
  const measured = await runQueue(name, count, { nodes: NODES, env });
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query('SELECT count(*)::int AS stored FROM tasks');
  await client.end();
  if (rows[0]?.stored !== count) throw new Error(`${rows[0]?.stored} rows of ${count} were stored`);
  return measured;
}

/** A client of each node; the one that makes the ticks is killed in the end. */
async function stream(env: Record<string, string>, ticks: number): Promise<Record<string, number>> {
  // The first one there makes them.
  const maker = await startServices({ env });
  const other = await startServices({ env });
  const [here, there] = await Promise.all([listen(maker), listen(other)]);
  while (here.size < ticks || there.size < ticks) await setTimeout(50);
  const skews = [...here.entries()]
    .flatMap(([tick, at]) => (there.has(tick) ? [Math.abs((there.get(tick) as number) - at)] : []))
    // The snapshots come when the clients do.
    .slice(1)
    .sort((a, b) => a - b);
  maker.child.kill('SIGKILL');
  const before = there.size;
  while (there.size < before + 2) await setTimeout(10);
  const times = [...there.values()];
  const failover = Math.max(...times.slice(before - 1).map((at, index) => at - (times[before - 2 + index] as number)));
  return { skew: skews[Math.floor(skews.length / 2)] ?? 0, largestSkew: skews.at(-1) ?? 0, failover };
}

/** When each update came, by its text. */
async function listen(services: RunningServices): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  const client = new StreamClient(await streamOf(services), {
    onOpen() {},
    onText(payload) {
      const text = payload.toString();
      if (text.includes('"ticker"') && !times.has(text)) times.set(text, performance.now());
    },
    onEnd() {},
  });
  afterTest(() => client.destroy());
  return times;
}

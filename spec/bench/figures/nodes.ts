import { Client } from 'pg';
import { afterTest } from '../../support/cleanup.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import type { Figure } from '../figure.ts';
import { startRedis } from '../redis.ts';
import { runQueue } from '../server.ts';

const NODES = 2;
const PREFETCH = 'product, prefetch 50';
const DURABLE = 'BullMQ, appendfsync always';

/** Compares two nodes with two processes of BullMQ on one Redis, and of two queues that keep their tasks in PostgreSQL. */
export function nodes(count: number): Figure {
  const storeRows = (name: string, url: string, env: Record<string, string> = {}) =>
    measureRows(name, count, url, { DATABASE_URL: url, ...env });
  const bullMq = async (...settings: string[]) =>
    runQueue('bullmq', count, { nodes: NODES, args: [await startRedis(...settings)] });
  const product = { TOKEN_KEY: 'the key that all nodes of a bench share', QUEUE_MAX_LENGTH: `${count}` };
  const worked = { key: 'worked', unit: '/s' };
  return {
    name: `${NODES} nodes: ${count} tasks from submission to row`,
    contenders: {
      product: async () => storeRows('product', await newDatabase(), product),
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

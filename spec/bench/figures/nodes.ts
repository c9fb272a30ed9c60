import { Client } from 'pg';
import { afterTest } from '../../support/cleanup.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import type { Figure } from '../bench.ts';
import { runQueue, startRedis } from '../server.ts';

const NODES = 2;
const PREFETCH = 'product, prefetch 50';
const DURABLE = 'BullMQ, appendfsync always';

/** Compares two nodes with two processes of BullMQ on one Redis, and of two queues that keep their tasks in PostgreSQL. */
export function nodes(count: number): Figure {
  /** @throws {Error} if the number of rows stored is not the number of tasks */
  const storeRows = async (name: string, env: Record<string, string> = {}) => {
    const { url, remove } = await startPostgres();
    afterTest(remove);
    const measured = await runQueue(name, count, { nodes: NODES, env: { DATABASE_URL: url, ...env } });
    const client = new Client({ connectionString: url });
    await client.connect();
    const { rows } = await client.query('SELECT count(*)::int AS stored FROM tasks');
    await client.end();
    if (rows[0]?.stored !== count) throw new Error(`${rows[0]?.stored} rows of ${count} were stored`);
    return measured;
  };
  const bullMq = async (...settings: string[]) =>
    runQueue('bullmq', count, { nodes: NODES, args: [await startRedis(...settings)] });
  const product = { TOKEN_KEY: 'the key that all nodes of a bench share', QUEUE_MAX_LENGTH: `${count}` };
  const worked = { key: 'worked', unit: '/s' };
  return {
    name: `${NODES} nodes: ${count} tasks from submission to row`,
    contenders: {
      product: () => storeRows('product', product),
      [PREFETCH]: () => storeRows('product', { ...product, TASK_PREFETCH: '50' }),
      BullMQ: () => bullMq('--appendonly', 'no'),
      [DURABLE]: () => bullMq('--appendonly', 'yes', '--appendfsync', 'always'),
      'graphile-worker': () => storeRows('graphile-worker'),
      'pg-boss': () => storeRows('pg-boss'),
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

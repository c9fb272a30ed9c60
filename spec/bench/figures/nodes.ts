import { setTimeout } from 'node:timers/promises';
import { Client } from 'pg';
import { StreamClient } from '../../load/stream-client.ts';
import { sharedNatsServer } from '../../support/nats-server.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import type { Figure } from '../figure.ts';
import { withRedis } from '../redis.ts';
import { type Product, Server, startProduct } from '../server.ts';

const NODES = 2;

/** Compares two nodes with two processes of BullMQ on one Redis, and of two queues that keep their tasks in PostgreSQL. */
export function nodes(count: number, ticks: number): Figure {
  return {
    name: `${NODES} nodes: ${count} tasks from submission to row, and ${ticks} ticks`,
    contenders: {
      product: () =>
        withPostgres(async (DATABASE_URL) => {
          const env = await productSettings(DATABASE_URL);
          return { ...(await storeRows(productNode(count, env), count, DATABASE_URL)), ...(await stream(env, ticks)) };
        }),
      'product, prefetch 50': () =>
        withPostgres(async (DATABASE_URL) => {
          const env = { ...(await productSettings(DATABASE_URL)), TASK_PREFETCH: '50' };
          return storeRows(productNode(count, env), count, DATABASE_URL);
        }),
      BullMQ: () => withRedis(['--appendonly', 'no'], (port) => work(bullMqNode(count, port), count)),
      'BullMQ, appendfsync always': () =>
        withRedis(['--appendonly', 'yes', '--appendfsync', 'always'], (port) => work(bullMqNode(count, port), count)),
      'graphile-worker': () =>
        withPostgres((url) => storeRows(postgresNode('graphile-worker', count, url), count, url)),
      'pg-boss': () => withPostgres((url) => storeRows(postgresNode('pg-boss', count, url), count, url)),
    },
    readings: [
      { key: 'worked', name: 'tasks, submission to stored row', unit: '/s', target: { atLeast: 4000 } },
      { key: 'worked', name: 'the same, beside BullMQ', unit: '/s', beside: 'BullMQ, appendfsync always' },
      { key: 'worked', name: 'the same, by a BullMQ that loses them', unit: '/s', beside: 'BullMQ' },
      { key: 'worked', name: 'the same, by a queue in PostgreSQL', unit: '/s', beside: 'graphile-worker' },
      { key: 'worked', name: 'the same, by one that fetches batches', unit: '/s', beside: 'pg-boss' },
      {
        key: 'worked',
        name: 'the same, TASK_PREFETCH=50',
        unit: '/s',
        of: 'product, prefetch 50',
        target: { atLeast: 8000 },
      },
      { key: 'skew', name: 'one tick on one node and on the other, median', unit: 'ms' },
      { key: 'largestSkew', name: 'the same, at most', unit: 'ms' },
      { key: 'failover', name: 'between two ticks when their maker is killed', unit: 'ms', target: { atMost: 4000 } },
    ],
  };
}

let prefixes = 0;

/** Returns the settings of nodes that have nothing in common with earlier ones. */
async function productSettings(DATABASE_URL: string): Promise<Record<string, string>> {
  return {
    NATS_URL: await sharedNatsServer(),
    NATS_PREFIX: `bench-${process.pid}-${++prefixes}`,
    DATABASE_URL,
    TOKEN_KEY: 'the key that all nodes of a bench share',
  };
}

/** Calls `run` with the URL of a PostgreSQL server of its own. */
async function withPostgres<T>(run: (url: string) => Promise<T>): Promise<T> {
  const postgres = await startPostgres();
  try {
    return await run(postgres.url);
  } finally {
    await postgres.remove();
  }
}

const productNode = (count: number, env: Record<string, string>) => () =>
  Server.start({
    file: 'spec/bench/contenders/product-node.ts',
    args: [String(count / NODES)],
    env: { QUEUE_MAX_LENGTH: String(count), ...env },
  });

const bullMqNode = (count: number, port: number) => () =>
  Server.start({ file: 'spec/bench/contenders/bullmq-node.ts', args: [String(count / NODES), String(port)] });

const postgresNode = (name: string, count: number, DATABASE_URL: string) => () =>
  Server.start({
    file: `spec/bench/contenders/${name}-node.ts`,
    args: [String(count / NODES)],
    env: { DATABASE_URL },
  });

/** Measures {@link work}. @throws {Error} if the number of rows stored is not the number of tasks */
async function storeRows(start: () => Promise<Server>, count: number, url: string): Promise<Record<string, number>> {
  const measured = await work(start, count);
  const client = new Client({ connectionString: url });
  await client.connect();
  const { rows } = await client.query('SELECT count(*)::int AS stored FROM tasks');
  await client.end();
  if (rows[0]?.stored !== count) throw new Error(`${rows[0]?.stored} rows of ${count} were stored`);
  return measured;
}

/** Has all nodes begin at once, and waits until all that they add is done. */
async function work(start: () => Promise<Server>, count: number): Promise<Record<string, number>> {
  const servers = await Promise.all(Array.from({ length: NODES }, start));
  try {
    await Promise.all(servers.map((server) => server.line(({ ready }) => ready === true)));
    const began = performance.now();
    for (const server of servers) server.go();
    const done = () => {
      const byEach = servers.reduce((sum, server) => sum + server.latest('doneByThis'), 0);
      return Math.max(byEach, ...servers.map((server) => server.latest('doneByAll')));
    };
    while (done() < count) await setTimeout(10);
    return { worked: count / ((performance.now() - began) / 1000) };
  } finally {
    for (const server of servers) await server.stop();
  }
}

/** A client of each node; the one that makes the ticks is killed in the end. */
async function stream(env: Record<string, string>, ticks: number): Promise<Record<string, number>> {
  // The first one there makes them.
  const maker = await startProduct(env);
  const other = await startProduct(env);
  try {
    const [here, there] = await Promise.all([listen(maker), listen(other)]);
    while (here.size < ticks || there.size < ticks) await setTimeout(50);
    const skews = [...here.entries()]
      .flatMap(([tick, at]) => (there.has(tick) ? [Math.abs((there.get(tick) as number) - at)] : []))
      // The snapshots come when the clients do.
      .slice(1)
      .sort((a, b) => a - b);
    maker.server.kill();
    const before = there.size;
    while (there.size < before + 2) await setTimeout(10);
    const times = [...there.values()];
    const failover = Math.max(
      ...times.slice(before - 1).map((at, index) => at - (times[before - 2 + index] as number)),
    );
    return { skew: skews[Math.floor(skews.length / 2)] ?? 0, largestSkew: skews.at(-1) ?? 0, failover };
  } finally {
    await Promise.all([maker.server.stop(), other.server.stop()]);
  }
}

/** When each update came, by its text. */
async function listen(product: Product): Promise<Map<string, number>> {
  const times = new Map<string, number>();
  const target = { ...product.ticker, path: '/ws/ticker', token: await product.token() };
  const client = new StreamClient(target, {
    onOpen() {},
    onText(payload) {
      const text = payload.toString();
      if (text.includes('"ticker"') && !times.has(text)) times.set(text, performance.now());
    },
    onEnd() {},
  });
  void client;
  return times;
}

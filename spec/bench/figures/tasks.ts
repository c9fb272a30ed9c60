import { resolve } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { Client } from 'pg';
import { afterTest } from '../../support/cleanup.ts';
import { startPostgres } from '../../support/postgres-server.ts';
import { residentBytes } from '../../support/proc.ts';
import { post, projectFolder, startProgram, startServices } from '../../support/program.ts';
import type { Figure, Reading } from '../bench.ts';
import { type ContenderOptions, cpuOf, runQueue, startRedis } from '../server.ts';

/** Folder of another version of the project with its packages installed, to compare the product with. */
const { BASE } = process.env;

const MODULE = 'product, handlers module';
const PREFETCH = 'product, prefetch 50';
const worked = { key: 'worked', unit: '/s' };
const submitted = { key: 'submitted', unit: '/s' };
const besideBase: Reading[] = [
  { ...worked, name: `processed, beside the version in ${BASE}`, beside: 'base' },
  { key: 'cpu', name: `CPU of a task, beside the version in ${BASE}`, unit: 'µs', beside: 'base' },
];

export function tasks(count: number): Figure {
  return {
    name: `${count} tasks worked off`,
    contenders: {
      product: () => measureProduct(count),
      [MODULE]: () => measureProduct(count, { TASK_HANDLERS: './spec/bench/contenders/handlers.ts' }),
      [PREFETCH]: () => measureProduct(count, { TASK_PREFETCH: '50' }),
      ...(BASE && { base: () => measureProduct(count, {}, BASE) }),
      BullMQ: () => measureBullMq(count),
    },
    readings: [
      ...(BASE ? besideBase : []),
      { ...worked, name: 'worked off, rows stored', beside: 'BullMQ', target: { atLeast: 1.2 } },
      { key: 'cpu', name: 'CPU, module', unit: 'µs', of: MODULE, beside: 'product', target: { atMost: 1.05 } },
      { ...worked, name: 'the same, TASK_PREFETCH=50', of: PREFETCH, beside: 'BullMQ', target: { atLeast: 2 } },
      { ...submitted, name: 'submitted, 32 in flight', beside: 'BullMQ' },
    ],
  };
}

export function shapes(count: number): Figure {
  const product = (BENCH_SHAPE: string) => () => measureProduct(count, { BENCH_SHAPE });
  const bullMq = (BENCH_SHAPE: string) => () => measureBullMq(count, { env: { BENCH_SHAPE } });
  return {
    name: `${count} tasks that are limited, due in the same second, or submitted in batches of 1000`,
    contenders: {
      product: () => measureProduct(count),
      ...{ 'product, keys': product('keys'), 'product, limits': product('limits') },
      ...{ 'product, later': product('later'), 'BullMQ, later': bullMq('later') },
      ...{ 'product, batches': product('batches'), 'BullMQ, batches': bullMq('batches') },
    },
    readings: [
      { ...worked, name: 'one of each key', of: 'product, limits', beside: 'product, keys', target: { atLeast: 0.6 } },
      { ...worked, name: '10,000 keys, beside no keys', of: 'product, keys', beside: 'product' },
      { ...worked, name: 'due together', of: 'product, later', beside: 'BullMQ, later', target: { atLeast: 1.3 } },
      { key: 'early', name: 'processed before that', of: 'product, later', target: { atMost: 0 } },
      { ...submitted, name: 'in batches', of: 'product, batches', beside: 'BullMQ, batches', target: { atLeast: 1 } },
      { ...submitted, name: 'the same, beside one by one', of: 'product, batches', beside: 'product' },
    ],
  };
}

/** The same where nothing that was accepted may be lost. */
export function durableTasks(count: number): Figure {
  return {
    name: `${count} tasks worked off, on disk from submission to row`,
    contenders: {
      product: () => measureProduct(count, { QUEUE_DRIVER: 'sqlite' }),
      BullMQ: () => measureBullMq(count, {}, 'durable'),
    },
    readings: [
      { key: 'both', name: 'submission to stored row', unit: '/s', beside: 'BullMQ', target: { atLeast: 1 } },
      { ...worked, name: 'worked off', beside: 'BullMQ' },
      { ...submitted, name: 'submitted, 32 in flight', beside: 'BullMQ' },
    ],
  };
}

async function measureBullMq(count: number, options: ContenderOptions = {}, durability?: 'durable') {
  return runQueue('bullmq', count, { ...options, args: [await startRedis(durability)] });
}

function measureProduct(count: number, env: Record<string, string> = {}, folder = projectFolder) {
  return runQueue('product', count, { env: { QUEUE_MAX_LENGTH: `${count}`, ...env }, folder: resolve(folder) });
}

const BATCH = 1000;
const NONE = 'product, none';

export function scheduled(count: number, seconds: number): Figure {
  return {
    name: `an idle process with ${count} scheduled tasks, ${seconds} s`,
    contenders: { product: () => measureIdle(count, seconds), [NONE]: () => measureIdle(0, seconds) },
    readings: [
      { key: 'cpu', name: 'CPU', unit: 'ms/s', beside: NONE, target: { atMost: 1.1 } },
      // The goal is 20 MB more, which is a fifth of what an idle process has.
      { key: 'memory', name: 'memory', unit: 'MB', beside: NONE, target: { atMost: 1.2 } },
    ],
  };
}

async function measureIdle(count: number, seconds: number) {
  const env = { QUEUE_DRIVER: 'sqlite', QUEUE_MAX_LENGTH: '2000000', QUEUE_MAX_BYTES: '1000000000' };
  const services = await startServices({ env });
  const tasks = Array(BATCH).fill({ action: 'uppercase', data: { text: 'tomorrow' }, delay: 86_400 });
  for (let added = 0; added < count; added += BATCH) {
    const { status } = await post(`${services.tasks}/tasks/batch`, { tasks });
    if (status !== 202) throw new Error(`a batch was answered with ${status}`);
  }
  await services.end();
  const idle = await startProgram({ env: services.env });
  await idle.logged((line) => line.service === 'admin');
  await setTimeout(seconds * 250);
  const before = cpuOf(idle);
  await setTimeout(seconds * 1000);
  const cpu = ((cpuOf(idle) - before) / seconds) * 1000;
  return { cpu, memory: residentBytes(idle.child.pid as number) / 1e6 };
}

const NODES = 2;
const DURABLE = 'BullMQ, appendfsync always';

/** Compares two nodes with two processes of BullMQ on one Redis, and of two queues that keep their tasks in PostgreSQL. */
export function nodes(count: number): Figure {
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
  const product = { TOKEN_KEY: 'the key that all nodes of a bench share', QUEUE_MAX_LENGTH: `${count}` };
  return {
    name: `${NODES} nodes: ${count} tasks from submission to row`,
    contenders: {
      product: () => storeRows('product', product),
      [PREFETCH]: () => storeRows('product', { ...product, TASK_PREFETCH: '50' }),
      BullMQ: () => measureBullMq(count, { nodes: NODES }),
      [DURABLE]: () => measureBullMq(count, { nodes: NODES }, 'durable'),
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

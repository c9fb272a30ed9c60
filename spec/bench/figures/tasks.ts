import { resolve } from 'node:path';
import { projectFolder } from '../../support/program.ts';
import type { Figure, Reading } from '../bench.ts';
import { runQueue, startRedis } from '../server.ts';

/** Folder of another version of the project with its packages installed, to compare the product with. */
const { BASE } = process.env;

const MODULE = 'product, handlers module';
const PREFETCH = 'product, prefetch 50';
const worked = { key: 'worked', unit: '/s' };
const submitted = { key: 'submitted', unit: '/s' };

/** How fast queued tasks are processed. */
export function tasks(count: number): Figure {
  return {
    name: `${count} tasks worked off`,
    contenders: {
      product: () => measureProduct(count),
      [MODULE]: () => measureProduct(count, { TASK_HANDLERS: './spec/bench/contenders/handlers.ts' }),
      [PREFETCH]: () => measureProduct(count, { TASK_PREFETCH: '50' }),
      ...(BASE && { base: () => measureProduct(count, {}, BASE) }),
      BullMQ: () => measureBullMq(count, {}, '--appendonly', 'no'),
    },
    readings: [
      ...besideBase({ ...worked, name: 'processed' }),
      { ...worked, name: 'worked off, rows stored', beside: 'BullMQ', target: { atLeast: 1.2 } },
      { key: 'cpu', name: 'CPU, module', unit: 'µs', of: MODULE, beside: 'product', target: { atMost: 1.05 } },
      { ...worked, name: 'the same, TASK_PREFETCH=50', of: PREFETCH, beside: 'BullMQ', target: { atLeast: 2 } },
      { ...submitted, name: 'submitted, 32 in flight', beside: 'BullMQ' },
    ],
  };
}

/** How fast tasks of other shapes are submitted and processed. */
export function shapes(count: number): Figure {
  const product = (BENCH_SHAPE: string) => () => measureProduct(count, { BENCH_SHAPE });
  const bullMq = (BENCH_SHAPE: string) => () => measureBullMq(count, { BENCH_SHAPE }, '--appendonly', 'no');
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
  const env = { QUEUE_DRIVER: 'sqlite' };
  return {
    name: `${count} tasks worked off, on disk from submission to row`,
    contenders: {
      product: () => measureProduct(count, env),
      ...(BASE && { base: () => measureProduct(count, env, BASE) }),
      BullMQ: () => measureBullMq(count, {}, '--appendonly', 'yes', '--appendfsync', 'always'),
    },
    readings: [
      ...besideBase({ key: 'both', name: 'both', unit: '/s' }),
      { key: 'both', name: 'submission to stored row', unit: '/s', beside: 'BullMQ', target: { atLeast: 1 } },
      { ...worked, name: 'worked off', beside: 'BullMQ' },
      { ...submitted, name: 'submitted, 32 in flight', beside: 'BullMQ' },
    ],
  };
}

/** Readings beside the version in `BASE`, if it is set: the given one, and the CPU of a task. */
function besideBase(reading: Reading): Reading[] {
  if (BASE === undefined) return [];
  const readings = [reading, { key: 'cpu', name: 'CPU of a task', unit: 'µs' }];
  return readings.map((each) => ({ ...each, name: `${each.name}, beside the version in ${BASE}`, beside: 'base' }));
}

async function measureBullMq(count: number, env: Record<string, string>, ...settings: string[]) {
  return runQueue('bullmq', count, { env, args: [await startRedis(...settings)] });
}

function measureProduct(count: number, env: Record<string, string> = {}, folder = projectFolder) {
  return runQueue('product', count, { env: { QUEUE_MAX_LENGTH: `${count}`, ...env }, folder: resolve(folder) });
}

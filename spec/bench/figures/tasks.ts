import type { Figure } from '../figure.ts';
import { withRedis } from '../redis.ts';
import { Server } from '../server.ts';

/** How fast queued tasks are worked off. */
export function tasks(count: number): Figure {
  return {
    name: `${count} tasks worked off`,
    contenders: {
      product: () => measureProduct(count),
      'product, handlers module': () => measureProduct(count, { TASK_HANDLERS: './spec/bench/contenders/handlers.ts' }),
      'product, prefetch 50': () => measureProduct(count, { TASK_PREFETCH: '50' }),
      BullMQ: () => withRedis(['--appendonly', 'no'], (port) => measure(bullMq(count, port))),
    },
    readings: [
      { key: 'worked', name: 'worked off, rows stored', unit: '/s', beside: 'BullMQ', target: { atLeast: 1.2 } },
      {
        key: 'cpu',
        name: 'CPU of a task by a handlers module, beside a built-in action',
        unit: 'µs',
        of: 'product, handlers module',
        beside: 'product',
        target: { atMost: 1.05 },
      },
      {
        key: 'worked',
        name: 'the same, TASK_PREFETCH=50',
        unit: '/s',
        of: 'product, prefetch 50',
        beside: 'BullMQ',
        target: { atLeast: 2 },
      },
      { key: 'submitted', name: 'submitted, 32 in flight', unit: '/s', beside: 'BullMQ' },
    ],
  };
}

/** The same where nothing that was accepted may be lost. */
export function durableTasks(count: number): Figure {
  return {
    name: `${count} tasks worked off, on disk from submission to row`,
    contenders: {
      product: () => measureProduct(count, { QUEUE_DRIVER: 'sqlite' }),
      BullMQ: () =>
        withRedis(['--appendonly', 'yes', '--appendfsync', 'always'], (port) => measure(bullMq(count, port))),
    },
    readings: [
      { key: 'both', name: 'submission to stored row', unit: '/s', beside: 'BullMQ', target: { atLeast: 1 } },
      { key: 'worked', name: 'worked off', unit: '/s', beside: 'BullMQ' },
      { key: 'submitted', name: 'submitted, 32 in flight', unit: '/s', beside: 'BullMQ' },
    ],
  };
}

const bullMq = (count: number, port: number) =>
  Server.start({ file: 'spec/bench/contenders/bullmq.ts', args: [String(count), String(port)] });

const measureProduct = (count: number, env: Record<string, string> = {}) =>
  measure(
    Server.start({
      file: 'spec/bench/contenders/product-queue.ts',
      args: [String(count)],
      env: { QUEUE_MAX_LENGTH: String(count), ...env },
    }),
  );

async function measure(starting: Promise<Server>): Promise<Record<string, number>> {
  const server = await starting;
  try {
    return (await server.line((line) => line.worked !== undefined)) as Record<string, number>;
  } finally {
    await server.stop();
  }
}

import { setTimeout } from 'node:timers/promises';
import { temporaryFolder } from '../../support/cleanup.ts';
import { residentBytes } from '../../support/proc.ts';
import { post, startProgram, startServices } from '../../support/program.ts';
import type { Figure } from '../bench.ts';
import { cpuOf } from '../server.ts';

const BATCH = 1000;
const NONE = 'product, none';

/** CPU and memory of an idle process that has started with tasks that are due tomorrow. */
export function scheduled(count: number, seconds: number): Figure {
  return {
    name: `an idle process with ${count} scheduled tasks, ${seconds} s`,
    contenders: { product: () => measure(count, seconds), [NONE]: () => measure(0, seconds) },
    readings: [
      { key: 'cpu', name: 'CPU', unit: 'ms/s', beside: NONE, target: { atMost: 1.1 } },
      // The goal is 20 MB more, which is a fifth of what an idle process has.
      { key: 'memory', name: 'memory', unit: 'MB', beside: NONE, target: { atMost: 1.2 } },
    ],
  };
}

async function measure(count: number, seconds: number) {
  const DATA_DIR = await temporaryFolder();
  const env = { DATA_DIR, QUEUE_DRIVER: 'sqlite', QUEUE_MAX_LENGTH: '2000000', QUEUE_MAX_BYTES: '1000000000' };
  const services = await startServices({ env });
  const tasks = Array(BATCH).fill({ action: 'uppercase', data: { text: 'tomorrow' }, delay: 86_400 });
  for (let added = 0; added < count; added += BATCH) {
    const { status } = await post(`${services.tasks}/tasks/batch`, { tasks });
    if (status !== 202) throw new Error(`a batch was answered with ${status}`);
  }
  await services.end();
  const idle = await startProgram({ env });
  await idle.logged((line) => line.service === 'admin');
  await setTimeout(seconds * 250);
  const before = cpuOf(idle);
  await setTimeout(seconds * 1000);
  const cpu = ((cpuOf(idle) - before) / seconds) * 1000;
  return { cpu, memory: residentBytes(idle.child.pid as number) / 1e6 };
}

import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { temporaryFolder } from '../../support/cleanup.ts';
import { sabotage } from '../../support/inspector.ts';
import type { Attacker } from '../attacker.ts';
import type { Scenario } from '../scenario.ts';
import type { Stage } from '../stage.ts';
import { failing } from './submissions.ts';

const POOL = /piscina/;
/** Memory of rows, dead letters and keys that the process keeps by design. */
const KEPT_MIB = 48;
const MISBEHAVIOUR_MS = 400;

/**
 * Returns a fault that repeatedly patches the pool threads, so that their next `bad` task runs `code`. A restarted
 * thread is not patched.
 */
const misbehaving =
  (code: string) =>
  async ({ target, seconds, did }: Stage): Promise<void> => {
    const folder = await temporaryFolder();
    const end = performance.now() + seconds * 1000;
    for (let time = 0; performance.now() < end; time++) {
      await target.inspector?.evaluate(POOL, sabotage(code, [join(folder, `${time}`)]));
      did('sabotaged');
      await setTimeout(MISBEHAVIOUR_MS);
    }
  };

const submitsBad = (attacker: Attacker) =>
  attacker.repeat(2, async () => {
    await attacker.post('tasks', '/tasks', '{"action":"uppercase","data":{"text":"bad"}}');
    await setTimeout(20);
  });

const group = 'tasks';

export const tasks: readonly Scenario[] = [
  {
    name: 'idempotency-flood',
    group,
    bounds: { keptMib: KEPT_MIB },
    attack: (attacker) =>
      attacker.repeat(8, () => {
        const isKnown = attacker.random.below(2) === 0;
        const key = isKnown ? `known-${attacker.random.below(10)}` : `key-${attacker.random.below(2 ** 31)}`;
        const body = `{"action":"${attacker.random.pick(['x', 'y'])}"}`;
        return attacker.post('tasks', '/tasks', body, [`Idempotency-Key: ${key}`]);
      }),
    outcomes: /^(202|409|422)$/,
  },
  {
    name: 'dead-letter-flood',
    group,
    bounds: { keptMib: KEPT_MIB },
    attack: (attacker) => attacker.repeat(8, () => attacker.post('tasks', '/tasks', failing)),
    outcomes: /^202$/,
  },
  {
    name: 'full-queue',
    group,
    setup: { env: { QUEUE_MAX_LENGTH: '20' }, alone: true },
    bounds: { refusals: true },
    attack: (attacker) => attacker.repeat(32, () => attacker.post('tasks', '/tasks', failing)),
    outcomes: /^(202|500)$/,
  },
  {
    name: 'hanging-tasks',
    group,
    setup: { inspected: true, env: { TASK_TIMEOUT_MS: '500', TASK_MEMORY_MB: '32' } },
    fault: misbehaving('for (;;);'),
    attack: submitsBad,
  },
  {
    name: 'memory-eating-tasks',
    group,
    setup: { inspected: true, env: { TASK_TIMEOUT_MS: '500', TASK_MEMORY_MB: '32' } },
    fault: misbehaving('for (const meals = []; ; ) meals.push(new Array(10000).fill({}));'),
    attack: submitsBad,
  },
];

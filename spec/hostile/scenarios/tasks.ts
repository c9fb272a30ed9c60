import { setTimeout } from 'node:timers/promises';
import { type Attacker, failing } from '../attacker.ts';
import type { Scenarios } from '../scenario.ts';

/** Memory of rows, dead letters and keys that the process keeps by design. */
const KEPT_MIB = 48;
const MISBEHAVIOUR_MS = 400;

/** Shared, so that these scenarios share a process. */
const limited = {
  ...{ TASK_TIMEOUT_MS: '500', TASK_MEMORY_MB: '32' },
  ...{ TASK_HANDLERS: './spec/hostile/scenarios/misbehaving.ts', TASK_UNKNOWN_ACTIONS: 'process' },
};

const submits = (action: string) => (attacker: Attacker) =>
  attacker.repeat(1, async () => {
    await attacker.post('tasks', '/tasks', `{"action":"${action}"}`);
    await setTimeout(MISBEHAVIOUR_MS);
  });

export const tasks = {
  'idempotency-flood': {
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
  'dead-letter-flood': {
    bounds: { keptMib: KEPT_MIB },
    attack: (attacker) => attacker.repeat(8, () => attacker.post('tasks', '/tasks', failing)),
    outcomes: /^202$/,
  },
  'full-queue': {
    env: { QUEUE_MAX_LENGTH: '20' },
    bounds: { refusals: true },
    attack: (attacker) => attacker.repeat(32, () => attacker.post('tasks', '/tasks', failing)),
    outcomes: /^(202|500)$/,
  },
  'hanging-tasks': { env: limited, attack: submits('hang'), outcomes: /^202$/ },
  'memory-eating-tasks': { env: limited, attack: submits('eat'), outcomes: /^202$/ },
} satisfies Scenarios;

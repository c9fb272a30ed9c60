import { setTimeout } from 'node:timers/promises';
import { repeating, type Scenarios } from '../attacker.ts';

/** Memory of rows, dead letters and keys that the process keeps by design. */
const KEPT_MIB = 48;
const MISBEHAVIOUR_MS = 400;

/** Shared, so that these scenarios share a process. */
const limited = {
  ...{ TASK_TIMEOUT_MS: '500', TASK_MEMORY_MB: '32' },
  ...{ TASK_HANDLERS: './spec/hostile/scenarios/misbehaving.ts', TASK_UNKNOWN_ACTIONS: 'process' },
};

const submits = (action: string) =>
  repeating(1, async (attacker) => {
    await attacker.submit(`{"action":"${action}"}`);
    await setTimeout(MISBEHAVIOUR_MS);
  });

const submitsFailing = (clients: number) =>
  repeating(clients, (attacker) => attacker.submit('{"action":"sum","data":{"numbers":["1"]}}'));

export const tasks = {
  'idempotency-flood': {
    bounds: { keptMib: KEPT_MIB },
    attack: repeating(8, (attacker) => {
      const { random } = attacker;
      const key = random.below(2) === 0 ? `known-${random.below(10)}` : `key-${random.below(2 ** 31)}`;
      return attacker.submit(`{"action":"${random.pick(['x', 'y'])}"}`, `Idempotency-Key: ${key}`);
    }),
    outcomes: /^(202|409|422)$/,
  },
  'dead-letter-flood': { bounds: { keptMib: KEPT_MIB }, attack: submitsFailing(8), outcomes: /^202$/ },
  'full-queue': {
    env: { QUEUE_MAX_LENGTH: '20' },
    bounds: { refusals: true },
    attack: submitsFailing(32),
    outcomes: /^(202|500)$/,
  },
  'hanging-tasks': { env: limited, attack: submits('hang'), outcomes: /^202$/ },
  'memory-eating-tasks': { env: limited, attack: submits('eat'), outcomes: /^202$/ },
} satisfies Scenarios;

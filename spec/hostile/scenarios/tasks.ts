import { join } from 'node:path';
import { setTimeout } from 'node:timers/promises';
import { temporaryFolder } from '../../support/cleanup.ts';
import { type Attacker, failing } from '../attacker.ts';
import type { Scenarios, Setup, Stage } from '../scenario.ts';

const POOL = /piscina/;
/** Memory of rows, dead letters and keys that the process keeps by design. */
const KEPT_MIB = 48;
const MISBEHAVIOUR_MS = 400;

/** Shared, so that these scenarios share a process. */
const limited: Setup = { inspected: true, env: { TASK_TIMEOUT_MS: '500', TASK_MEMORY_MB: '32' } };

/**
 * Returns code that makes a pool thread misbehave at one task with the text `bad`. The misbehaviour creates a folder, so
 * that only one of the threads misbehaves.
 */
const sabotage = (misbehave: string, folder: string) => `{
  const { toUpperCase } = String.prototype;
  const { mkdirSync } = process.getBuiltinModule('fs');
  const isFirst = () => { try { mkdirSync(${JSON.stringify(folder)}); return true; } catch { return false; } };
  String.prototype.toUpperCase = function () {
    if (this.valueOf() === 'bad' && isFirst()) { ${misbehave} }
    return toUpperCase.call(this);
  };
}`;

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
      await target.inspector?.evaluate(POOL, sabotage(code, join(folder, `${time}`)));
      did('sabotaged');
      await setTimeout(MISBEHAVIOUR_MS);
    }
  };

const submitsBad = (attacker: Attacker) =>
  attacker.repeat(2, async () => {
    await attacker.post('tasks', '/tasks', '{"action":"uppercase","data":{"text":"bad"}}');
    await setTimeout(20);
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
    setup: { env: { QUEUE_MAX_LENGTH: '20' }, alone: true },
    bounds: { refusals: true },
    attack: (attacker) => attacker.repeat(32, () => attacker.post('tasks', '/tasks', failing)),
    outcomes: /^(202|500)$/,
  },
  'hanging-tasks': {
    setup: limited,
    fault: misbehaving('for (;;);'),
    attack: submitsBad,
  },
  'memory-eating-tasks': {
    setup: limited,
    fault: misbehaving('for (const meals = []; ; ) meals.push(new Array(10000).fill({}));'),
    attack: submitsBad,
  },
} satisfies Scenarios;

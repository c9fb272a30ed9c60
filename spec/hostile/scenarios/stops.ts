import { setTimeout } from 'node:timers/promises';
import { type Attacker, failing } from '../attacker.ts';
import type { Scenario, Scenarios, Stage } from '../scenario.ts';
import { stopBounds } from '../verdict.ts';

/** Returns a fault that ends the process halfway through the scenario and restarts it in the same folder. */
const endBy =
  (signal: NodeJS.Signals) =>
  async ({ target, random, seconds, did }: Stage): Promise<void> => {
    await setTimeout((seconds * 1000) / 3 + random.below(300));
    did(`exit ${await target.end(signal)}`);
    await target.start();
  };

const submits = (attacker: Attacker) =>
  attacker.repeat(8, () => {
    const bodies = ['{"action":"x"}', failing, '{"action":"sum","data":{"numbers":[1]}}'];
    return attacker.post('tasks', '/tasks', attacker.random.pick(bodies));
  });

/** Memory of the old process's dead letters and keys, which the new process loads. */
const bounds = { ...stopBounds, keptMib: 32 };
const orderly: Scenario = {
  ...{ setup: { alone: true }, bounds, attack: submits },
  outcomes: /^(exit 0|202|500|503|refused|no answer)$/,
};
export const stops = {
  sigterm: { ...orderly, fault: endBy('SIGTERM') },
  sighup: { ...orderly, fault: endBy('SIGHUP') },
  sigkill: {
    setup: { alone: true, env: { QUEUE_DRIVER: 'sqlite' } },
    ...{ bounds, fault: endBy('SIGKILL'), attack: submits },
    outcomes: /^(exit SIGKILL|202|refused|no answer)$/,
  },
} satisfies Scenarios;

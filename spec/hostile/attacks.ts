/** Runs attacks in a process of low priority, so that their CPU use does not slow the services down. */
import { constants, setPriority } from 'node:os';
import { crc32 } from 'node:zlib';
import { serveCalls } from '../support/child.ts';
import { mochaHooks } from '../support/cleanup.ts';
import { randomFrom } from '../support/seed.ts';
import { Attacker, type Mark } from './attacker.ts';
import { scenarioNamed } from './scenarios/all.ts';

/** Method of the process. */
export interface Attacks {
  attack: typeof attack;
}

/** Runs the attack of the scenario with that name. Returns its observations, and the stack of an error that it threw. */
async function attack(name: string, mark: Mark, seed: number, seconds: number) {
  const attacker = new Attacker(mark, { random: randomFrom(crc32(name), seed), seed, seconds });
  const errors: string[] = [];
  try {
    await scenarioNamed(name).attack?.(attacker);
    if (attacker.actions > 0) await attacker.rest();
  } catch (thrown) {
    errors.push((thrown as Error).stack ?? String(thrown));
  }
  attacker.close();
  await mochaHooks.afterEach();
  return { actions: attacker.actions, outcomes: Object.fromEntries(attacker.outcomes), errors };
}

setPriority(constants.priority.PRIORITY_LOW);
serveCalls({ attack } satisfies Attacks);

/** Runs attacks in a process of low priority, so that their CPU use does not slow the services down. */
import { constants, setPriority } from 'node:os';
import { crc32 } from 'node:zlib';
import { serveCalls } from '../support/child.ts';
import { mochaHooks } from '../support/cleanup.ts';
import { randomFrom } from '../support/seed.ts';
import { Attacker, type Mark } from './attacker.ts';
import { scenarioNamed } from './scenarios/all.ts';

/** Runs the attack of the scenario with that name. Returns its observations, and the stack of an error that it threw. */
export async function attack(name: string, mark: Mark, seed: number, seconds: number) {
  const attacker = new Attacker(mark, { random: randomFrom(crc32(name), seed), seed, seconds });
  const errors: string[] = [];
  const scenario = scenarioNamed(name);
  await scenario.attack?.(attacker).catch((thrown: Error) => errors.push(thrown.stack ?? String(thrown)));
  await attacker.end();
  await mochaHooks.afterEach();
  return { actions: attacker.actions, outcomes: attacker.outcomes, errors };
}

setPriority(constants.priority.PRIORITY_LOW);
serveCalls({ attack });

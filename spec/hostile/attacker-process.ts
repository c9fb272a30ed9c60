/** Runs attacks in a process of low priority, so that their CPU use does not slow the services down. */
import { constants, setPriority } from 'node:os';
import { mochaHooks } from '../support/cleanup.ts';
import { Attacker } from './attacker.ts';
import type { AttackEnd, AttackStart } from './proving-ground.ts';
import { randomOf } from './random.ts';
import { scenarioNamed } from './scenarios/all.ts';

setPriority(constants.priority.PRIORITY_LOW);

process.on('message', async ({ name, mark, seed, seconds }: AttackStart) => {
  const attacker = new Attacker(mark, { random: randomOf(name, seed), seed, seconds });
  let error: string | undefined;
  try {
    await scenarioNamed(name).attack?.(attacker);
    if (attacker.actions > 0) await attacker.rest();
  } catch (thrown) {
    error = (thrown as Error).stack ?? String(thrown);
  }
  attacker.close();
  await mochaHooks.afterEach();
  const { actions, outcomes } = attacker;
  process.send?.({ actions, outcomes: Object.fromEntries(outcomes), error } satisfies AttackEnd);
});
process.on('disconnect', () => process.exit());
process.send?.('ready');

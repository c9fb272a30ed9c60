import type { Scenario } from '../scenario.ts';
import { bodies } from './bodies.ts';
import { origins } from './origins.ts';
import { pipelines } from './pipelines.ts';
import { readers } from './readers.ts';
import { streams } from './streams.ts';
import { tokens } from './tokens.ts';

const AT_ONCE = 4;
const choices = [bodies, readers, pipelines, streams, tokens, origins].flat();

/** Several concurrent attacks, chosen by the seed. */
function mix(name: string): Scenario {
  return {
    name,
    attack: async (attacker) => {
      const chosen = new Set<Scenario>();
      while (chosen.size < AT_ONCE) chosen.add(attacker.random.pick(choices));
      for (const scenario of chosen) attacker.got(`with ${scenario.name}`);
      await Promise.all([...chosen].map((scenario) => scenario.attack?.(attacker)));
    },
  };
}

export const mixes: readonly Scenario[] = [mix('mix')];

import type { Scenario, Scenarios } from '../attacker.ts';
import { bodies, readers } from './bodies.ts';
import { fuzz, origins, pipelines } from './requests.ts';
import { streams, tokens } from './streams.ts';
import { tasks } from './tasks.ts';

export type ListedScenario = Scenario & { name: string; group: string };

const AT_ONCE = 4;

const mix: Scenario = {
  async attack(attacker) {
    const all = Object.entries<Scenario>({ ...bodies, ...readers, ...pipelines, ...streams, ...tokens, ...origins });
    const chosen = new Map<string, Scenario>();
    while (chosen.size < AT_ONCE) chosen.set(...attacker.random.pick(all));
    for (const name of chosen.keys()) attacker.got(`with ${name}`);
    await Promise.all([...chosen.values()].map((scenario) => scenario.attack?.(attacker)));
  },
};

const groups: Readonly<Record<string, Scenarios>> = {
  ...{ bodies, readers, pipelines, streams, tokens, origins, tasks, fuzz, mixes: { mix } },
};

const all: readonly ListedScenario[] = Object.entries(groups).flatMap(([group, members]) =>
  Object.entries(members).map(([name, scenario]) => ({ ...scenario, name, group })),
);

/** All scenarios. Scenarios with the same settings are adjacent, so that they share a process. */
export const scenarios: readonly ListedScenario[] = Object.values(
  Object.groupBy(all, ({ env = {} }) => JSON.stringify(env)),
).flatMap((group = []) => group);

/** @throws {Error} if the name is unknown */
export function scenarioNamed(name: string): ListedScenario {
  const scenario = scenarios.find((each) => each.name === name);
  if (scenario === undefined) throw new Error(`there is no scenario or group ${JSON.stringify(name)}: see --list`);
  return scenario;
}

import type { ListedScenario } from '../scenario.ts';
import { bodies } from './bodies.ts';
import { files, output } from './files.ts';
import { fuzz } from './fuzz.ts';
import { mixes } from './mixes.ts';
import { origins } from './origins.ts';
import { pipelines } from './pipelines.ts';
import { connections, readers } from './readers.ts';
import { stops } from './stops.ts';
import { streams } from './streams.ts';
import { tasks, threads } from './tasks.ts';
import { tokens } from './tokens.ts';

const groups = {
  ...{ bodies, readers, pipelines, streams, tokens, origins, tasks, fuzz, mixes },
  ...{ threads, connections, output, files, stops },
};

const all: readonly ListedScenario[] = Object.entries(groups).flatMap(([group, members]) =>
  members.map((scenario) => ({ ...scenario, group })),
);

/** All scenarios. Scenarios with the same setup are adjacent, so that they share a process. */
export const scenarios: readonly ListedScenario[] = Object.values(
  Object.groupBy(all, ({ setup = {} }) => JSON.stringify(setup)),
).flatMap((group = []) => group);

const byName = new Map(scenarios.map((scenario) => [scenario.name, scenario]));

/** @throws {Error} if the name is unknown */
export function scenarioNamed(name: string): ListedScenario {
  const scenario = byName.get(name);
  if (scenario === undefined) throw new Error(`there is no scenario or group ${JSON.stringify(name)}: see --list`);
  return scenario;
}

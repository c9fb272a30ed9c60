import type { Scenario } from '../scenario.ts';
import { bodies } from './bodies.ts';
import { connections } from './connections.ts';
import { files } from './files.ts';
import { fuzz } from './fuzz.ts';
import { mixes } from './mixes.ts';
import { origins } from './origins.ts';
import { output } from './output.ts';
import { pipelines } from './pipelines.ts';
import { readers } from './readers.ts';
import { stopping } from './stops.ts';
import { streams } from './streams.ts';
import { tasks } from './tasks.ts';
import { threads } from './threads.ts';
import { tokens } from './tokens.ts';

const all: readonly Scenario[] = [
  ...[bodies, readers, pipelines, streams, tokens, origins, tasks, fuzz, mixes].flat(),
  ...[threads, connections, output, files, stopping].flat(),
];

/** All scenarios. Scenarios with the same setup are adjacent, so that they share a process. */
export const scenarios: readonly Scenario[] = Object.values(
  Object.groupBy(all, ({ setup = {} }) => JSON.stringify(setup)),
).flatMap((group = []) => group);

const byName = new Map(scenarios.map((scenario) => [scenario.name, scenario]));

/** @throws {Error} if the name is unknown */
export function scenarioNamed(name: string): Scenario {
  const scenario = byName.get(name);
  if (scenario === undefined) throw new Error(`there is no scenario or group ${JSON.stringify(name)}: see --list`);
  return scenario;
}

import { setTimeout } from 'node:timers/promises';
import { startChild } from '../support/child.ts';
import { queueCounts } from '../support/ledger.ts';
import type { Attacks } from './attacks.ts';
import { STREAMS, startNeighbours } from './neighbours.ts';
import type { ListedScenario } from './scenario.ts';
import { startTarget, type Target } from './target.ts';
import { type Bounds, broken, effectiveBounds, type Footprint, type Observation, usualBounds } from './verdict.ts';

export interface Result {
  name: string;
  bounds: Bounds;
  observed: Observation;
  /** Wall time of the scenario, including the start of the process. */
  seconds: number;
  broken: string[];
}

const QUIET: ListedScenario = { name: 'no attack', group: 'baseline' };
/** Shortest measurement window: one health probe and ten ticks. */
const WARM_UP_MS = 1000;

/**
 * Runs scenarios one after another against real processes, each with neighbours. The first result is that of a window
 * without an attack, which measures the machine's latencies.
 */
export async function* attackAll(
  chosen: readonly ListedScenario[],
  seed: number,
  seconds: number,
): AsyncGenerator<Result> {
  const neighbours = startNeighbours();
  const attacks = startChild<Attacks>(new URL('attacks.ts', import.meta.url).href);
  let running: { target: Target; start: Footprint } | undefined;
  let baseline = { tickMs: 0, healthMs: 0 };

  async function start(env: Record<string, string>) {
    const target = await startTarget(env);
    await neighbours.join(target.mark.ports.ticker, await target.token());
    // Warm-up: a new process grows with its first requests.
    await neighbours.begin(target, seed);
    await setTimeout(WARM_UP_MS);
    await neighbours.end();
    await neighbours.account(target.tasks);
    return { target, start: await target.measure() };
  }
  async function end(): Promise<void> {
    await neighbours.leave();
    await running?.target.kill();
    running = undefined;
  }

  for (const scenario of [QUIET, ...chosen]) {
    const { name, env = {} } = scenario;
    const began = performance.now();
    if (running !== undefined && JSON.stringify(running.target.env) !== JSON.stringify(env)) await end();
    running ??= await start(env);
    const { target, start: atStart } = running;
    const bounds = { ...usualBounds, ...scenario.bounds };
    const before = await target.measure();
    await neighbours.begin({ tasks: target.tasks, admin: target.admin }, seed);
    // An attack may exceed the time of the scenario.
    const attacked = scenario.attack && attacks.attack(name, target.mark, seed, seconds);
    await setTimeout(seconds * 1000);
    const { actions = 0, outcomes = {}, errors = [] } = (await attacked) ?? {};
    const sight = await neighbours.end();
    const peakMib = target.peakMib(before);
    await neighbours.account(target.tasks).catch(({ message }) => errors.push(message));
    const after = await target.settle(before, bounds);
    // Fails if the counts do not add up.
    await queueCounts(target.tasks);
    const observed = { sight, peakMib, start: atStart, before, after, actions, outcomes, errors };
    const effective = effectiveBounds(bounds, baseline, sight);
    if (scenario === QUIET) baseline = sight;
    if (sight.open < STREAMS) await end();
    yield {
      ...{ name, observed, bounds: effective, seconds: (performance.now() - began) / 1000 },
      broken: scenario === QUIET ? [] : broken(observed, effective, scenario.outcomes),
    };
  }
}

import { setTimeout } from 'node:timers/promises';
import { crc32 } from 'node:zlib';
import { startChild } from '../support/child.ts';
import { queueCounts } from '../support/ledger.ts';
import { randomFrom } from '../support/seed.ts';
import type { Attacks } from './attacks.ts';
import { STREAMS, startNeighbours } from './neighbours.ts';
import type { ListedScenario, Setup } from './scenario.ts';
import { Target } from './target.ts';
import { type Bounds, broken, effectiveBounds, type Footprint, type Observation, usualBounds } from './verdict.ts';

export interface Result {
  name: string;
  group: string;
  bounds: Bounds;
  observed: Observation;
  /** Wall time of the scenario, including the start of the process. */
  seconds: number;
  broken: string[];
}

const QUIET: ListedScenario = { name: 'no attack', group: 'baseline' };
/** Shortest measurement window: one health probe and ten ticks. */
const WARM_UP_MS = 1000;

/** Runs scenarios one after another against real processes, each with neighbours. */
export class ProvingGround {
  readonly #seed: number;
  readonly #seconds: number;
  readonly #neighbours = startNeighbours();
  readonly #attacks = startChild<Attacks>(new URL('attacks.ts', import.meta.url).href);
  #target: Target | undefined;
  #start: Footprint | undefined;
  #baseline = { tickMs: 0, healthMs: 0 };

  constructor({ seed, seconds }: { seed: number; seconds: number }) {
    this.#seed = seed;
    this.#seconds = seconds;
  }

  /** Measures the machine's latencies without an attack, for the duration of a scenario. */
  async measureBaseline(): Promise<Result> {
    const result = await this.run(QUIET);
    const { tickMs, healthMs } = result.observed.sight;
    this.#baseline = { tickMs, healthMs };
    return result;
  }

  async run(scenario: ListedScenario): Promise<Result> {
    const { name, group, setup = {} } = scenario;
    const began = performance.now();
    const bounds = { ...usualBounds, ...scenario.bounds };
    const target = await this.#targetOf(setup);
    const before = await target.measure();
    this.#start ??= before;
    await this.#neighbours.begin({ tasks: target.tasks, admin: target.admin }, this.#seed);
    const attacked = await this.#attack(scenario, target);
    const sight = await this.#neighbours.end();
    const peak = target.peakMib(before);
    const errors = attacked.errors;
    await this.#neighbours.account(target.tasks).catch(({ message }) => errors.push(message));
    const after = await target.settle(before, bounds);
    // Fails if the counts do not add up.
    await queueCounts(target.tasks);
    const observed: Observation = { sight, peakMib: peak, start: this.#start, before, after, ...attacked, errors };
    const effective = effectiveBounds(bounds, this.#baseline, sight);
    if (setup.alone || sight.open < STREAMS) await this.#end();
    return {
      name,
      group,
      bounds: effective,
      observed,
      seconds: (performance.now() - began) / 1000,
      broken: scenario === QUIET ? [] : broken(observed, effective, scenario.outcomes),
    };
  }

  /** Runs a scenario's attack and its fault concurrently. They may exceed the time of the scenario. */
  async #attack(
    { name, attack, fault }: ListedScenario,
    target: Target,
  ): Promise<Pick<Observation, 'actions' | 'outcomes' | 'errors'>> {
    const [seed, seconds] = [this.#seed, this.#seconds];
    const total = { actions: 0, outcomes: {} as Record<string, number>, errors: [] as string[] };
    const count = (outcome: string, times = 1) => {
      total.outcomes[outcome] = (total.outcomes[outcome] ?? 0) + times;
    };
    const did = (outcome: string) => {
      total.actions++;
      count(outcome);
    };
    const fail = (error: unknown) => void total.errors.push(String(error));
    const [attacked] = await Promise.all([
      attack && this.#attacks.attack(name, target.mark, seed, seconds).catch(fail),
      fault?.({ target, random: randomFrom(crc32(name), seed), seconds, did }).catch(fail),
      setTimeout(seconds * 1000),
    ]);
    const { actions = 0, outcomes = {}, error } = attacked ?? {};
    total.actions += actions;
    for (const [outcome, times] of Object.entries(outcomes)) count(outcome, times);
    if (error !== undefined) fail(error);
    return total;
  }

  async #targetOf(setup: Setup): Promise<Target> {
    if (this.#target !== undefined && JSON.stringify(this.#target.setup) !== JSON.stringify(setup)) await this.#end();
    if (this.#target !== undefined) return this.#target;
    const target = await Target.start(setup);
    this.#target = target;
    await this.#neighbours.join(target.mark.ports.ticker, await target.token());
    // Warm-up: a new process grows with its first requests.
    await this.#neighbours.begin({ tasks: target.tasks, admin: target.admin }, this.#seed);
    await setTimeout(WARM_UP_MS);
    await this.#neighbours.end();
    await this.#neighbours.account(target.tasks);
    return target;
  }

  async #end(): Promise<void> {
    await this.#neighbours.leave();
    await this.#target?.kill();
    this.#target = undefined;
    this.#start = undefined;
  }
}

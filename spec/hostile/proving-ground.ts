import { type Child, startChild } from '../support/child.ts';
import { queueCounts } from '../support/ledger.ts';
import type { Mark } from './attacker.ts';
import { type Bounds, usualBounds } from './bounds.ts';
import { type Footprint, measure, peakMib, settle } from './footprint.ts';
import { type Neighbours, STREAMS, startNeighbours } from './neighbours.ts';
import { randomOf } from './random.ts';
import type { ListedScenario, Scenario, Setup } from './scenario.ts';
import { Target } from './target.ts';
import { type Baseline, broken, effectiveBounds, type Observation } from './verdict.ts';

/** Order to the process that attacks. */
export interface AttackStart {
  /** Name of the scenario. */
  name: string;
  mark: Mark;
  seed: number;
  seconds: number;
}

export interface AttackEnd {
  /** Number of requests, frames and connections that were sent. */
  actions: number;
  outcomes: Record<string, number>;
  /** Stack of an error thrown by the attack itself. */
  error?: string | undefined;
}

/** Outcome of one scenario. */
export interface Result {
  name: string;
  group: string;
  seed: number;
  bounds: Bounds;
  observed: Observation;
  /** Accepted tasks, all of which were settled as expected. */
  accepted: number;
  /** Wall time of the scenario, including the start of the process. */
  seconds: number;
  /** Exceeded bounds. */
  broken: string[];
}

const QUIET: ListedScenario = { name: 'no attack', group: 'baseline' };
/** Shortest measurement window, in seconds: one health probe and ten ticks. */
const WARM_UP_SECONDS = 1;

/** Runs scenarios one after another against real processes, each with neighbours. */
export class ProvingGround {
  readonly #seed: number;
  readonly #seconds: number;
  readonly #neighbours: Neighbours;
  readonly #attackers: Child<AttackStart, AttackEnd>;
  #target: Target | undefined;
  /** Footprint of the new process. */
  #start: Footprint | undefined;
  #baseline: Baseline = { tickMs: 0, healthMs: 0 };

  private constructor(seed: number, seconds: number, neighbours: Neighbours, attackers: Child<AttackStart, AttackEnd>) {
    this.#seed = seed;
    this.#seconds = seconds;
    this.#neighbours = neighbours;
    this.#attackers = attackers;
  }

  static async open({ seed, seconds }: { seed: number; seconds: number }): Promise<ProvingGround> {
    const attackers = startChild<AttackStart, AttackEnd>(new URL('attacker-process.ts', import.meta.url));
    const [neighbours, attacker] = await Promise.all([startNeighbours(), attackers]);
    return new ProvingGround(seed, seconds, neighbours, attacker);
  }

  /** Measures the machine's latencies without an attack, for the duration of a scenario. */
  async measureBaseline(): Promise<Result> {
    const result = await this.run(QUIET);
    const { tickMs, healthMs } = result.observed.sight;
    this.#baseline = { tickMs, healthMs };
    return result;
  }

  /** Runs a scenario and compares the observations with the bounds. */
  async run(scenario: ListedScenario): Promise<Result> {
    const { name, group, setup = {} } = scenario;
    const began = performance.now();
    const bounds = { ...usualBounds, ...scenario.bounds };
    const target = await this.#targetOf(setup);
    const before = await measure(target);
    this.#start ??= before;
    await this.#begin(target);
    const attacked = await this.#attack(scenario, target);
    const sight = await this.#neighbours.end();
    const peak = peakMib(target, before);
    const errors = attacked.errors;
    await this.#neighbours.do({ step: 'account', tasks: target.tasks }).catch(({ message }) => errors.push(message));
    const after = await settle(target, before, bounds);
    const { accepted } = (await queueCounts(target.tasks)) as unknown as { accepted: number };
    const observed: Observation = { sight, peakMib: peak, start: this.#start, before, after, ...attacked, errors };
    const effective = effectiveBounds(bounds, this.#baseline, sight);
    if (setup.alone || sight.open < STREAMS) await this.#end();
    return {
      name,
      group,
      seed: this.#seed,
      bounds: effective,
      observed,
      accepted,
      seconds: (performance.now() - began) / 1000,
      broken: scenario === QUIET ? [] : broken(observed, effective, scenario.outcomes),
    };
  }

  /** Runs a scenario's attack and its fault concurrently. They may exceed the time of the scenario. */
  async #attack(
    { name, attack, fault }: Scenario,
    target: Target,
  ): Promise<Pick<Observation, 'actions' | 'outcomes' | 'errors'>> {
    const { mark } = target;
    const [seed, seconds] = [this.#seed, this.#seconds];
    const total = { actions: 0, outcomes: {} as Record<string, number>, errors: [] as string[] };
    const count = (outcome: string, times = 1) => {
      total.outcomes[outcome] = (total.outcomes[outcome] ?? 0) + times;
    };
    const did = (outcome: string) => {
      total.actions++;
      count(outcome);
    };
    const faulted = fault?.({ target, random: randomOf(name, seed), seconds, did });
    const ended = attack && this.#attackers.ask({ name, mark, seed, seconds });
    const results = await Promise.allSettled([
      ended,
      faulted,
      new Promise((resolve) => setTimeout(resolve, seconds * 1000)),
    ]);
    for (const result of results) if (result.status === 'rejected') total.errors.push(String(result.reason));
    const { actions = 0, outcomes = {}, error }: Partial<AttackEnd> = (await ended?.catch(() => undefined)) ?? {};
    total.actions += actions;
    for (const [outcome, times] of Object.entries(outcomes)) count(outcome, times);
    if (error !== undefined) total.errors.push(error);
    return total;
  }

  async #targetOf(setup: Setup): Promise<Target> {
    if (this.#target !== undefined && JSON.stringify(this.#target.setup) !== JSON.stringify(setup)) await this.#end();
    if (this.#target !== undefined) return this.#target;
    const target = await Target.start(setup);
    this.#target = target;
    await this.#neighbours.do({ step: 'join', ticker: target.mark.ports.ticker, token: await target.token() });
    // Warm-up: a new process grows with its first requests.
    await this.#begin(target);
    await new Promise((resolve) => setTimeout(resolve, WARM_UP_SECONDS * 1000));
    await this.#neighbours.end();
    await this.#neighbours.do({ step: 'account', tasks: target.tasks });
    return target;
  }

  async #begin({ tasks, admin }: Target): Promise<void> {
    await this.#neighbours.do({ step: 'begin', tasks, admin, seed: this.#seed });
  }

  async #end(): Promise<void> {
    await this.#neighbours.do({ step: 'leave' });
    await this.#target?.end('SIGKILL');
    this.#target = undefined;
    this.#start = undefined;
  }
}

import type { StoredSchedule } from '../../db/schedules.ts';
import { Clients } from './clients.ts';
import { History } from './history.ts';
import type { Process, ProcessOptions } from './process.ts';
import type { SeededRandom } from './random.ts';
import { type FaultSet, REQUESTS, SCHEDULING } from './steps.ts';
import { turn } from './time.ts';
import type { Violation, World } from './world.ts';

export interface SimulationOptions {
  seed: number;
  /** Number of steps. */
  steps: number;
  faults: FaultSet;
  /** Numbers of the steps to run. Undefined for all. */
  only?: ReadonlySet<number> | undefined;
  /** Receives the log. */
  note?: ((line: string) => void) | undefined;
}

export interface SimulationResult {
  /** Numbers of the steps that ran. */
  ran: number[];
  violation: Violation | undefined;
}

/** Steps between two audits. */
const AUDIT_STEPS = 100;
const FIRES = 'After the faults, schedules make tasks.';
/** No other schedule has this name. */
const LAST_SCHEDULE = '5.one.allow';
const LONGEST_REST_MS = 24 * 60 * 60 * 1000;

const isRequest = (kind: string): kind is (typeof REQUESTS)[number] => (REQUESTS as readonly string[]).includes(kind);

/** Runs the steps of a seed: requests of clients, faults, and time. */
export abstract class Simulation<Kind extends string, One extends Process> {
  protected readonly world: World;
  protected readonly history: History;
  protected readonly clients: Clients;
  protected readonly processes: One[] = [];
  /** Number of the present step. */
  protected step = 0;
  /** Number of processes that were started in the present step. */
  #started = 0;
  /** Whether the steps are over. */
  #isOver = false;

  constructor(world: World) {
    this.world = world;
    this.history = new History(world);
    this.clients = new Clients(world, this.history, (random) => {
      const serving = this.processes.filter(({ isServing }) => isServing);
      return serving.length === 0 ? undefined : random.pick(serving);
    });
  }

  protected abstract readonly weights: Partial<Record<Kind, number>>;
  protected abstract start(): Promise<void>;
  protected abstract fault(kind: Kind, random: SeededRandom): void | Promise<void>;
  protected abstract restart(place: number): void | Promise<void>;
  protected abstract audit(): void | Promise<void>;
  protected abstract isAtRest(): boolean | Promise<boolean>;
  /** Ends the faults. */
  protected abstract repair(): void | Promise<void>;
  /** Checks everything after the faults. */
  protected abstract finish(): Promise<void>;
  /** Ends the processes, and deletes their shared files. */
  protected abstract close(): void | Promise<void>;
  /** Called after each timer. */
  protected watch(): void {}

  async run(options: SimulationOptions): Promise<SimulationResult> {
    try {
      const ran = await this.#runSteps(options);
      if (this.world.violation === undefined) await this.#end();
      return { ran, violation: this.world.violation };
    } finally {
      await this.close();
    }
  }

  async #runSteps({ steps, only }: SimulationOptions): Promise<number[]> {
    const planned = this.world.random.fork('steps');
    // Each seed has some kinds of steps more often than others, and some not at all, because a rare combination of two
    // kinds would otherwise be covered by the others.
    const kindsOf = { ...this.weights, ...(this.world.setting.schedules.length > 0 && SCHEDULING) };
    const weights = Object.entries(kindsOf).map(([kind, weight]): [string, number] => {
      return [kind, (weight as number) * planned.pick([0, 0.3, 1, 1, 2])];
    });
    weights.push(['submit', 5], ['wait', 5]);
    const kinds = Array.from({ length: steps }, () => planned.weighted(weights));
    const ran: number[] = [];
    await this.start();
    for (const [index, kind] of kinds.entries()) {
      if (this.world.violation !== undefined) break;
      if (only !== undefined && !only.has(index + 1)) continue;
      this.step = index + 1;
      this.#started = 0;
      ran.push(this.step);
      await this.#run(kind, this.world.random.fork(`step ${this.step}`));
      if (ran.length % AUDIT_STEPS === 0) await this.audit();
    }
    return ran;
  }

  /** Lets time pass, and starts the processes again that end meanwhile. */
  protected async pass(ms: number): Promise<void> {
    const { time, pace } = this.world;
    const end = time.now + ms * pace;
    while (time.now < end && this.world.violation === undefined) {
      await time.pass(end - time.now, () => {
        this.watch();
        return this.world.violation !== undefined || this.processes.some(({ isKillDue }) => isKillDue);
      });
      for (const [place, { isKillDue }] of this.processes.entries()) if (isKillDue) await this.restart(place);
    }
  }

  /** Returns the options of a new process, which depend on no earlier step. */
  protected optionsOf(place: number): ProcessOptions {
    this.#started += 1;
    const name = `process ${place + 1}.${this.step}.${this.#started}`;
    const { world, history } = this;
    const random = world.random.fork(name);
    const hasModule = !this.#isOver && random.fork('module').chance(0.7);
    return { world, history, name, random, hasModule };
  }

  async #run(kind: string, random: SeededRandom): Promise<void> {
    const name = `t${this.step}`;
    this.world.note(`step ${this.step}: ${kind}`);
    if (kind === 'wait') await this.pass(random.pick([1, 5, 20, 100, 500]));
    else if (kind === 'waitLong') await this.pass(random.between(1000, 30_000));
    else if (kind === 'submit' || kind === 'submitMany' || kind === 'repeat') this.clients[kind](name, random);
    else if (isRequest(kind)) this.clients[kind](random);
    else await this.fault(kind as Kind, random);
    // The next step may come before the product has finished this one.
    for (let turns = random.below(4); turns > 0; turns -= 1) await turn();
    if (random.chance(0.3)) await this.pass(random.below(10));
    for (const [place, { isKillDue }] of this.processes.entries()) if (isKillDue) await this.restart(place);
  }

  async #end(): Promise<void> {
    const { random } = this.world;
    this.world.note('the faults are over');
    this.#isOver = true;
    await this.repair();
    await this.pass(15_000);
    // A pause or resumption may have been lost with its process.
    this.clients.resume(random);
    if (this.world.setting.schedules.length === 0) await this.#rest();
    else await this.#endSchedules(random);
    await this.pass(5000);
    if (this.world.violation === undefined) await this.finish();
  }

  async #rest(): Promise<void> {
    const { time } = this.world;
    const end = time.now + LONGEST_REST_MS;
    while (this.world.violation === undefined && time.now < end && !(await this.isAtRest())) await this.pass(1000);
  }

  /** Pauses the schedules, so that the queue comes to rest, and checks that a new one fires. */
  async #endSchedules(random: SeededRandom): Promise<void> {
    const { clients, world } = this;
    clients.pauseSchedules(world.setting.schedules, random);
    await this.#rest();
    clients.setSchedule(LAST_SCHEDULE, false, random);
    await this.pass(12_000 / world.pace);
    let last: StoredSchedule | undefined;
    const process = this.processes.find(({ isServing }) => isServing);
    void process?.queue.store.schedules.find(LAST_SCHEDULE).then((found) => {
      last = found;
    });
    await this.pass(1000);
    if ((last?.lastAt ?? 0) < world.now - 7000) this.world.broken(FIRES, `${last?.name} was fired at ${last?.lastAt}`);
    clients.pauseSchedules([LAST_SCHEDULE], random);
    await this.pass(1000);
    await this.#rest();
  }
}

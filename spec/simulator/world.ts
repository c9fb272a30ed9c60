import { setImmediate as turn } from 'node:timers/promises';
import { type Logger, pino } from 'pino';
import { type Awaitable, type QueueCounts, type TaskStore, unfinished } from '../../db/task-store.ts';
import type { SeededRandom } from '../support/random.ts';
import { clientsOf } from './clients.ts';
import { createHistory, type History, REST, type Tables } from './history.ts';
import { type Backend, Process } from './process.ts';
import type { Time } from './time.ts';

export interface SimulationOptions {
  seed: number;
  steps: number;
  faults: FaultSet;
  /** Numbers of the steps to run. Undefined for all. */
  only?: ReadonlySet<number> | undefined;
  note?: ((line: string) => unknown) | undefined;
  databaseUrl?: string | undefined;
}

/** Numbers of the steps that ran, and the rule that was broken. */
export type SimulationResult = { ran: number[] } & Pick<World, 'violation'>;

/** Where the processes of a simulation keep their state: on a disk, or on a server that several share. */
export interface Site {
  readonly size: number;
  /** Whether a real server has the state, which has changed already when an answer arrives. */
  readonly isReal?: boolean | undefined;
  steps(): Steps;
  openBackend(process: Process): Backend | Promise<Backend>;
  /** Called when a process has died or stopped. @param isKept whether its queue is. Undefined if it has died */
  ended(process: Process, isKept?: boolean): void;
  repair(): void;
  hasFault(): boolean;
  /** The store of all processes, or the present one of the only process. */
  store(): Pick<TaskStore, 'counts' | 'isPaused'>;
  read(): Awaitable<Tables>;
  /** Checks what tasks do not show, after the faults. */
  checkRest?(): Promise<void>;
  close(): Awaitable<void>;
}

export const moods = [
  ...['quick', 'slow', 'large', 'flaky', 'hopeless', 'later', 'reporting', 'hanging', 'stubborn', 'crashing'],
  ...['acking', 'nacking', 'ackingThenFailing', 'deadly'],
] as const;

export type Mood = (typeof moods)[number];

export const faultSets = ['none', 'disk', 'crash', 'nodes', 'all'] as const;

export type FaultSet = (typeof faultSets)[number];

/** Kinds of steps, each with its weight and what happens. Steps are numbered, and `name` contains the number. */
export type Steps = Record<string, readonly [weight: number, run: (random: SeededRandom, name: string) => unknown]>;

export type Setting = ReturnType<typeof settingOf>;

export function settingOf(random: SeededRandom, seed: number) {
  return {
    callbacks: false,
    driver: random.chance(0.75) ? ('sqlite' as const) : ('memory' as const),
    threads: random.between(1, 3),
    prefetch: random.between(1, 8),
    bounds: { maxLength: random.pick([5, 40, 1000]), maxKeys: random.pick([2, 10, 1000]), maxBytes: 2 ** 40 },
    /** Number of rows that retention keeps. 0 for all. */
    rows: random.chance(0.15) ? random.between(1, 30) : 0,
    /** Names of schedules. None unless tasks have delays, priorities, limit keys and limits, as in every third seed. */
    schedules: seed % 3 === 0 ? [1, 2, 3].map((number) => newScheduleName(random.fork(`schedule ${number}`))) : [],
    moods: random.chance(0.5) ? moods : moods.filter(() => random.chance(0.4)).concat('quick'),
  };
}

/** Returns a name with the interval, `catch_up` and `overlap` of a schedule, which therefore never change. */
function newScheduleName(own: SeededRandom): string {
  return [own.pick([10, 60, 60, 3600]), own.pick(['none', 'one', 'all']), own.pick(['allow', 'skip'])].join('.');
}

const AUDIT_STEPS = 50;
const PAUSE_KNOWN = 'After the faults, each node knows whether the queue is paused.';
const FIRES = 'After the faults, schedules make tasks.';
/** No other schedule has this name. */
const LAST_SCHEDULE = '5.one.allow';
/** Longer than any delay of a task or of a retry. */
const LONGEST_STANDSTILL_MS = 60 * 60 * 1000;
const LONGEST_STOP_MS = 100_000;
/** Time after which a process that could not start is started again. */
const RESTART_MS = 500;

type WorldOptions = { time: Time; random: SeededRandom; setting: Setting } & Pick<SimulationOptions, 'note'>;

/** Settings, processes, log and first broken rule of a simulation, which all its parts share, and its run. */
export class World {
  readonly time!: Time;
  readonly random!: SeededRandom;
  readonly setting!: Setting;
  /** Factor of all waits and of the durations of handlers. */
  readonly pace!: number;
  readonly processes: Process[] = [];
  /** Text that the log leaves out, because each run has another one. */
  hidden = '\0';
  /** The first rule that did not hold, a sentence of the guarantees. The run ends after the present step. */
  violation: { rule: string; detail: string } | undefined;
  step = 0;
  readonly history: History;
  readonly log: Logger;
  note: (line: string) => void;
  readonly #clients: ReturnType<typeof clientsOf>;
  #site!: Site;
  /** Number of processes that the present step has started. */
  #started = 0;
  #isFaulty = true;

  constructor({ time, random, setting, note: write }: WorldOptions, pace = 1) {
    Object.assign(this, { time, random, setting, pace });
    const startedAt = time.now;
    this.note = (line) =>
      write?.(`${String(time.now - startedAt).padStart(9)} ms ${line.replaceAll(this.hidden, '.')}`);
    const writeLog = (line: string) => this.note(`    log ${line.trim()}`);
    const level = write === undefined ? 'silent' : 'info';
    // Without stacks, which name folders of the machine.
    const serializers = { err: String };
    this.log = pino({ base: null, timestamp: false, level, serializers }, { write: writeLog });
    this.history = createHistory(this);
    this.#clients = clientsOf(this);
  }

  get now(): number {
    return this.time.now;
  }

  /** Records that a rule did not hold. A property, because it is called without its object. */
  readonly broken = (rule: string, detail: string): void => {
    this.violation ??= { rule, detail };
  };

  async run(site: Site, options: SimulationOptions): Promise<SimulationResult> {
    this.#site = site;
    try {
      const ran = await this.#runSteps(options);
      if (this.violation === undefined) await this.#end();
      return { ran, violation: this.violation };
    } finally {
      // The processes may still write to the log.
      this.note = () => {};
      for (const process of this.processes) if (!process.isDead) process.kill();
      await site.close();
    }
  }

  /** Lets time pass, and starts the processes again that end meanwhile. */
  async pass(ms: number, isOver = () => false): Promise<void> {
    const end = this.now + ms * this.pace;
    const isEnd = () => this.violation !== undefined || isOver();
    while (this.now < end && !isEnd()) {
      await this.time.pass(end - this.now, () => isEnd() || this.processes.some(({ isKillDue }) => isKillDue));
      if (!isOver()) await this.#restartKilled();
    }
  }

  async #restartKilled(): Promise<void> {
    for (const [place, { isKillDue }] of this.processes.entries()) if (isKillDue) await this.restart(place, this.kill);
  }

  /** Starts a process, and again later if a fault prevents its start. A node opens its connections later. */
  async #start(place: number): Promise<void> {
    this.#started += 1;
    // Depends on no earlier step.
    const name = `process ${place + 1}.${this.step}.${this.#started}`;
    const own = this.random.fork(name);
    const hasModule = this.#isFaulty && own.fork('module').chance(0.7);
    const process = new Process({ world: this, name, place, random: own, hasModule });
    this.processes[place] = process;
    const onFailed = async (error: Error) => {
      const problem = `${name} cannot start: ${error.message}`;
      this.note(`    ${problem}`);
      if (!process.isDead && !this.#site.hasFault()) this.broken(REST, problem);
      await process.clock.sleep(RESTART_MS);
      process.isKillDue = true;
    };
    const startSchedules = () => {
      this.note(`    ${name} has started`);
      void process.startSchedules().catch(onFailed);
    };
    await Promise.race([process.open(this.#site.openBackend).then(startSchedules, onFailed), turn()]);
  }

  // Properties, because steps pass them on.
  readonly kill = (process: Process): void => {
    if (process.isDead) return;
    this.note(`    ${process.name} is dead`);
    this.#site.ended(process);
  };

  readonly stop = async (process: Process): Promise<void> => {
    if (!process.isServing) return;
    const untilAnswered = async () => {
      while (this.#clients.unanswered().length > 0 && this.violation === undefined) await turn();
    };
    let isKept: boolean | undefined;
    void process.stop(untilAnswered()).then((kept) => {
      isKept = kept;
    });
    await this.pass(LONGEST_STOP_MS, () => isKept !== undefined || process.isDead);
    if (process.isDead || this.violation !== undefined) return;
    if (isKept !== undefined) {
      this.note(`    ${process.name} has stopped${isKept ? '' : ', and could not save the queue'}`);
      this.#site.ended(process, isKept);
    } else if (this.#site.size === 1) this.broken(REST, `${process.name} did not stop in time`);
  };

  /** Ends a process, and starts the next one. @param downMs draws the time for which none runs */
  async restart(place: number, end: (process: Process) => unknown, downMs = () => 0): Promise<void> {
    const process = this.processes[place] as Process;
    // Its successor starts counting the messages from zero.
    if (this.#site.size === 1) this.#audit();
    await end(process);
    // A handler may have ended it before, so that it has a successor.
    if (this.processes[place] !== process) return;
    this.kill(process);
    const ms = downMs();
    if (ms > 0) await this.time.pass(ms);
    await this.#start(place);
  }

  /** Waits long. No message may then wait although nothing holds it up. */
  async #waitLong(random: SeededRandom): Promise<void> {
    await this.pass(random.between(1000, 30_000));
    const before = this.#waitingIdle();
    if (before === undefined) return;
    // The oldest message may have become due just now, or wait for a failed write, which is repeated within five seconds.
    await this.pass(6000);
    if (before === this.#waitingIdle()) this.broken(REST, `no handler runs, and a message of ${before} waits`);
  }

  /** Returns when the oldest waiting message became due, if it waits although no handler and no fault holds it up. */
  #waitingIdle(): number | undefined {
    // A resumption takes effect when it is synced.
    const mayRun = this.processes.every(({ isServing, queue }) => isServing && !queue.isPaused);
    if (this.#site.hasFault() || !mayRun) return undefined;
    const { inFlight, oldest } = this.#site.store().counts() as QueueCounts;
    return inFlight === 0 && this.history.tasksIn('running').length === 0 ? oldest : undefined;
  }

  #audit(): void {
    if (!this.#site.isReal && this.processes.some(({ isServing }) => isServing))
      this.history.audit(this.#site.read() as Tables, this.#site.store().counts() as QueueCounts);
  }

  async #runSteps({ steps: count, only }: SimulationOptions): Promise<number[]> {
    const [steps, kinds] = this.#plan(count);
    const ran: number[] = [];
    for (let place = 0; place < this.#site.size; place += 1) await this.#start(place);
    if (this.#site.size > 1) await this.pass(2000);
    for (const [index, kind] of kinds.entries()) {
      if (this.violation !== undefined) break;
      if (only?.has(index + 1) === false) continue;
      this.step = index + 1;
      this.#started = 0;
      ran.push(this.step);
      const own = this.random.fork(`step ${this.step}`);
      this.note(`step ${this.step}: ${kind}`);
      const done = steps[kind]?.[1](own, `t${this.step}`);
      if (done !== undefined) await done;
      // The next step may come before the product has finished this one.
      for (let turns = own.below(4); turns > 0; turns -= 1) await turn();
      if (own.chance(0.3)) await this.pass(own.below(10));
      await this.#restartKilled();
      if (ran.length % AUDIT_STEPS === 0) this.#audit();
    }
    return ran;
  }

  #plan(count: number): [Steps, string[]] {
    const steps: Steps = {
      ...this.#clients.steps,
      wait: [20, (own) => this.pass(own.pick([1, 5, 20, 100, 500]))],
      waitLong: [3, (own) => this.#waitLong(own)],
      ...this.#site.steps(),
      ...(this.setting.schedules.length > 0 && this.#clients.scheduling),
    };
    const planned = this.random.fork('steps');
    // Each seed has some kinds of steps more often than others, and some not at all, because a rare combination of two
    // kinds would otherwise be covered by the others.
    const weights = Object.entries(steps).map(([kind, [weight]]): [string, number] => {
      return [kind, weight * planned.pick([0, 0.3, 1, 1, 2])];
    });
    weights.push(['submit', 5], ['wait', 5]);
    return [steps, Array.from({ length: count }, () => planned.weighted(weights))];
  }

  async #end(): Promise<void> {
    this.note('the faults are over');
    this.#isFaulty = false;
    this.#site.repair();
    for (const process of this.processes) await process.goOn();
    await this.pass(15_000);
    // A process that waited for the server starts only after its timeout. Until then, a resumption is lost.
    for (let waits = 0; waits < 30 && !this.processes.some(({ isServing }) => isServing); waits += 1)
      await this.pass(1000);
    // A node that has missed messages reads again whether the queue is paused.
    const isPaused = await this.#site.store().isPaused();
    for (const { name, isServing, queue } of this.processes)
      if (isServing && queue.isPaused !== isPaused) this.broken(PAUSE_KNOWN, `${name} has missed the change`);
    // A pause or resumption may have been lost with its process.
    this.#clients.pause(this.random, false);
    if (this.setting.schedules.length === 0) await this.#rest();
    else await this.#endSchedules();
    await this.pass(5000);
    await this.#site.checkRest?.();
    if (this.violation !== undefined) return;
    const tables = await this.#site.read();
    this.history.audit(tables, await this.#site.store().counts());
    this.history.auditRest(tables, this.#clients.unanswered());
    if (this.#site.size === 1) await this.restart(0, this.stop);
  }

  async #rest(): Promise<void> {
    let [before, changedAt] = ['', this.now];
    while (this.violation === undefined && this.now < changedAt + LONGEST_STANDSTILL_MS * this.pace) {
      const counts = this.processes.some(({ isServing }) => isServing) ? await this.#site.store().counts() : undefined;
      if (counts !== undefined && unfinished(counts) === 0 && this.#clients.unanswered().length === 0) return;
      const state = JSON.stringify(counts);
      if (state !== before) [before, changedAt] = [state, this.now];
      // A retry waits for up to an hour.
      if (this.#site.isReal && this.#clients.unanswered().length === 0)
        for (const task of this.history.tasksIn('waiting')) this.#clients.runNow(this.random, [task]);
      await this.pass(1000);
    }
  }

  /** Pauses the schedules, so that the queue comes to rest, and checks that a new one fires. */
  async #endSchedules(): Promise<void> {
    this.#clients.pauseSchedules(this.setting.schedules, this.random);
    await this.#rest();
    this.#clients.setSchedule(LAST_SCHEDULE, false, this.random);
    await this.pass(12_000 / this.pace);
    const found = this.processes.find(({ isServing }) => isServing)?.queue.store.schedules.find(LAST_SCHEDULE);
    const read = found?.catch(() => undefined);
    await this.pass(1000 / this.pace);
    const lastAt = (await Promise.race([read, turn().then(() => undefined)]))?.lastAt ?? 0;
    if (lastAt < this.now - 7000) this.broken(FIRES, `${LAST_SCHEDULE} was fired at ${lastAt}`);
    this.#clients.pauseSchedules([LAST_SCHEDULE], this.random);
    await this.pass(1000);
    await this.#rest();
  }
}

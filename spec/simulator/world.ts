import { setImmediate as turn } from 'node:timers/promises';
import { type Logger, pino } from 'pino';
import type { SeededRandom } from '../support/random.ts';
import { createHistory, type History } from './history.ts';
import type { Process } from './process.ts';
import type { SimulationOptions } from './simulation.ts';

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

type WorldOptions = { time: Time; random: SeededRandom; setting: Setting } & Pick<SimulationOptions, 'note'>;

/** Settings, log and first broken rule, which all parts of a simulation share. */
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
  /** Whether the run has ended, after which its processes may still write to the log. */
  isOver = false;
  readonly history: History;
  readonly log: Logger;
  readonly note: (line: string) => void;

  constructor({ time, random, setting, note: write }: WorldOptions, pace = 1) {
    Object.assign(this, { time, random, setting, pace });
    const startedAt = time.now;
    this.note = (line) => {
      if (this.isOver) return;
      write?.(`${String(time.now - startedAt).padStart(9)} ms ${line.replaceAll(this.hidden, '.')}`);
    };
    const writeLog = (line: string) => this.note(`    log ${line.trim()}`);
    const level = write === undefined ? 'silent' : 'info';
    // Without stacks, which name folders of the machine.
    const serializers = { err: String };
    this.log = pino({ base: null, timestamp: false, level, serializers }, { write: writeLog });
    this.history = createHistory(this);
  }

  get now(): number {
    return this.time.now;
  }

  /** Records that a rule did not hold. A property, because it is called without its object. */
  readonly broken = (rule: string, detail: string): void => {
    this.violation ??= { rule, detail };
  };
}

/** Time at which each simulation starts, in milliseconds since the epoch. */
const START = 1_800_000_000_000;

/** Waits before which callbacks run, and their number of turns. */
const [LONG_MS, TURNS] = [1000, 6];

export type Time = Pick<SimulatedTime, 'now' | 'timer' | 'pass'>;

/** Each timer runs in a turn of its own. */
export class SimulatedTime {
  now = START;
  /** The next one is the last. */
  readonly #timers: { at: number; run: (() => void) | undefined }[] = [];

  timer(delayMs: number, run: () => void): () => void {
    const timer = { at: this.now + Math.max(0, Math.ceil(delayMs)), run: run as (() => void) | undefined };
    // After the timers that are due at the same time.
    this.#timers.splice(this.#timers.findLastIndex(({ at }) => at > timer.at) + 1, 0, timer);
    return () => {
      timer.run = undefined;
    };
  }

  /** Lets `ms` milliseconds pass. @param isOver whether to return before the time has passed, asked after each timer */
  async pass(ms: number, isOver: () => boolean = () => false): Promise<void> {
    const end = this.now + ms;
    for (let at = await this.#nextAfterTurns(end); at <= end; at = await this.#nextAfterTurns(end)) {
      // A pass that began meanwhile may have gone further. Time never goes back.
      this.now = Math.max(this.now, at);
      this.#timers.pop()?.run?.();
      await turn();
      if (isOver()) return;
    }
    this.now = Math.max(this.now, end);
    await turn();
  }

  /** Returns when the next timer is due, or infinity. Before a long wait, the callbacks of this time may set timers. */
  async #nextAfterTurns(end: number): Promise<number> {
    const isLong = () => Math.min(this.#next(), end) - this.now >= LONG_MS;
    for (let turns = 0; turns < TURNS && isLong(); turns += 1) await turn();
    return this.#next();
  }

  #next(): number {
    while (this.#timers.length > 0 && this.#timers.at(-1)?.run === undefined) this.#timers.pop();
    return this.#timers.at(-1)?.at ?? Number.POSITIVE_INFINITY;
  }
}

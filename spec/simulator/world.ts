import { pino } from 'pino';
import { createHistory, type History } from './history.ts';
import type { Process } from './process.ts';
import type { SeededRandom } from './random.ts';
import type { SimulationOptions } from './simulation.ts';
import type { Time } from './time.ts';

/** How the handler of a task behaves. */
export const moods = [
  ...['quick', 'slow', 'large', 'flaky', 'hopeless', 'later', 'reporting', 'hanging', 'stubborn', 'crashing'],
  ...['acking', 'nacking', 'ackingThenFailing', 'deadly'],
] as const;

export type Mood = (typeof moods)[number];

/** Faults that a simulation has. */
export const faultSets = ['none', 'disk', 'crash', 'nodes', 'all'] as const;

export type FaultSet = (typeof faultSets)[number];

/** Kinds of steps, each with its weight and what happens. Steps are numbered, and `name` contains the number. */
export type Steps = Record<string, readonly [weight: number, run: (random: SeededRandom, name: string) => unknown]>;

/** Settings of one simulation. */
export type Setting = ReturnType<typeof settingOf>;

export function settingOf(random: SeededRandom, seed: number) {
  return {
    /** Whether some tasks have callback URLs. */
    callbacks: false,
    driver: random.chance(0.75) ? ('sqlite' as const) : ('memory' as const),
    threads: random.between(1, 3),
    prefetch: random.between(1, 8),
    bounds: { maxLength: random.pick([5, 40, 1000]), maxKeys: random.pick([2, 10, 1000]), maxBytes: 2 ** 40 },
    /** Number of rows that retention keeps. 0 for all. */
    rows: random.chance(0.15) ? random.between(1, 30) : 0,
    /** Names of schedules. None unless tasks have delays, priorities, limit keys and limits, as in every third seed. */
    schedules: seed % 3 === 0 ? [1, 2, 3].map((number) => newScheduleName(random.fork(`schedule ${number}`))) : [],
    /** Moods of the handlers of this simulation. */
    moods: random.chance(0.5) ? moods : moods.filter(() => random.chance(0.4)).concat('quick'),
  };
}

/** Returns a name with the interval, `catch_up` and `overlap` of a schedule, which therefore never change. */
function newScheduleName(own: SeededRandom): string {
  return [own.pick([10, 60, 60, 3600]), own.pick(['none', 'one', 'all']), own.pick(['allow', 'skip'])].join('.');
}

/** Objects that all parts of a simulation share. */
export interface World extends ReturnType<typeof sharedObjects> {
  history: History;
}

type WorldOptions = { time: Time; random: SeededRandom; setting: Setting } & Pick<SimulationOptions, 'note'>;

/** @param pace factor of all waits and of the durations of handlers */
export function createWorld(options: WorldOptions, pace = 1): World {
  const world = sharedObjects(options, pace) as World;
  world.history = createHistory(world);
  return world;
}

function sharedObjects({ time, random, setting, note: write }: WorldOptions, pace: number) {
  const startedAt = time.now;
  const writeLog = (line: string) => world.note(`    log ${line.trim()}`);
  const world = {
    ...{ time, random, setting, pace },
    /** The processes by their places. */
    processes: [] as Process[],
    /** Text that the log leaves out, because each run has another one. */
    hidden: '\0',
    /** Log of the product. */
    log: pino({ base: null, timestamp: false, level: write === undefined ? 'silent' : 'info' }, { write: writeLog }),
    /** The first rule that did not hold, a sentence of the guarantees. The run ends after the present step. */
    violation: undefined as { rule: string; detail: string } | undefined,
    /** Values that requests change. They settle when the only process ends, and stay until the end of the run. */
    known: [] as { settle(): void }[],
    get now(): number {
      return time.now;
    },
    /** Writes a line of the log. */
    note(line: string): void {
      write?.(`${String(time.now - startedAt).padStart(9)} ms ${line.replaceAll(world.hidden, '.')}`);
    },
    /** Records that a rule did not hold. */
    broken(rule: string, detail: string): void {
      world.violation ??= { rule, detail };
    },
  };
  return world;
}

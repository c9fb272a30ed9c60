import { type Mood, moods } from './pool.ts';
import type { SeededRandom } from './random.ts';
import { newScheduleName } from './schedules.ts';

/** Faults that a simulation has. */
export const faultSets = ['none', 'disk', 'crash', 'nodes', 'all'] as const;

export type FaultSet = (typeof faultSets)[number];

/** Requests of clients that need no name. */
export const REQUESTS = [
  ...(['cancel', 'cancelAll', 'redrive', 'purge', 'pause', 'resume', 'runNow', 'limit'] as const),
  ...(['schedule', 'runSchedule'] as const),
];

/** Weights of the steps of clients and of time. */
export const ORDINARY = {
  ...{ submit: 30, submitMany: 4, repeat: 6, cancel: 8, redrive: 3, purge: 2, pause: 2, resume: 4 },
  ...{ wait: 20, waitLong: 3 },
};

/** Weights of the steps of a simulation that schedules tasks, gives them priorities and limits them. */
export const SCHEDULING = { runNow: 5, limit: 4, cancelAll: 1, schedule: 4, runSchedule: 1 };

/** Settings of one simulation. */
export interface Setting {
  driver: 'memory' | 'sqlite';
  threads: number;
  prefetch: number;
  maxLength: number;
  maxKeys: number;
  /** Number of rows that retention keeps. 0 for all. */
  rows: number;
  /** Moods of the handlers of this simulation. */
  moods: readonly Mood[];
  /** Names of schedules. None unless tasks have delays, priorities, limit keys and limits, as in every third seed. */
  schedules: readonly string[];
  /** Whether some tasks have callback URLs. */
  callbacks: boolean;
}

export function settingOf(random: SeededRandom, seed: number): Setting {
  return {
    callbacks: false,
    driver: random.chance(0.75) ? 'sqlite' : 'memory',
    threads: random.between(1, 3),
    prefetch: random.between(1, 8),
    maxLength: random.pick([5, 40, 1000]),
    maxKeys: random.pick([2, 10, 1000]),
    rows: random.chance(0.15) ? random.between(1, 30) : 0,
    schedules: seed % 3 === 0 ? [1, 2, 3].map((number) => newScheduleName(random.fork(`schedule ${number}`))) : [],
    moods: random.chance(0.5) ? moods : moods.filter(() => random.chance(0.4)).concat('quick'),
  };
}

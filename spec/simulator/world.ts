import type { SeededRandom } from './random.ts';
import type { Setting } from './steps.ts';
import type { Time } from './time.ts';

/** A rule that did not hold. */
export interface Violation {
  /** A sentence of the guarantees. */
  rule: string;
  detail: string;
}

/** Objects that all parts of a simulation share. */
export type World = ReturnType<typeof createWorld>;

/** @param write receives the lines of the log. Undefined if nobody reads the log. */
export function createWorld(time: Time, random: SeededRandom, setting: Setting, write?: (line: string) => void) {
  const startedAt = time.now;
  const world = {
    ...{ time, random, setting, isLogged: write !== undefined },
    /** The first rule that did not hold. The run ends after the present step. */
    violation: undefined as Violation | undefined,
    /** Factor of all waits and of the durations of handlers. */
    pace: 1,
    get now(): number {
      return time.now;
    },
    /** Writes a line of the log. */
    note: (line: string) => write?.(`${String(time.now - startedAt).padStart(9)} ms ${line}`),
    /** Records that a rule did not hold. */
    broken(rule: string, detail: string): void {
      world.violation ??= { rule, detail };
    },
  };
  return world;
}

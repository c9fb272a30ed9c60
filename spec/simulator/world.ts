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
export class World {
  /** The first rule that did not hold. The run ends after the present step. */
  violation: Violation | undefined;
  /** Factor of all waits and of the durations of handlers. */
  pace = 1;
  readonly time: Time;
  readonly random: SeededRandom;
  readonly setting: Setting;
  /** Whether anyone reads the log. */
  readonly isLogged: boolean;
  readonly #startedAt: number;
  readonly #write: (line: string) => void;

  constructor(time: Time, random: SeededRandom, setting: Setting, write: ((line: string) => void) | undefined) {
    this.time = time;
    this.random = random;
    this.setting = setting;
    this.isLogged = write !== undefined;
    this.#startedAt = time.now;
    this.#write = write ?? (() => {});
  }

  get now(): number {
    return this.time.now;
  }

  /** Writes a line of the log. */
  note(line: string): void {
    if (this.isLogged) this.#write(`${String(this.now - this.#startedAt).padStart(9)} ms ${line}`);
  }

  /** Records that a rule did not hold. */
  broken(rule: string, detail: string): void {
    this.violation ??= { rule, detail };
  }
}

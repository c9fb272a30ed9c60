import type { Random } from '../../workers/shared/clock.ts';

/** A pseudorandom sequence (sfc32), determined by its seed. */
export class SeededRandom implements Random {
  readonly #seed: string;
  readonly #state: Uint32Array;

  constructor(seed: string) {
    this.#seed = seed;
    // FNV-1a with four offsets. The first numbers of sfc32 are skipped because similar seeds have similar ones.
    this.#state = new Uint32Array([0x811c9dc5, 0x9e3779b9, 0x85ebca6b, 1]);
    for (let index = 0; index < seed.length; index += 1) {
      const code = seed.charCodeAt(index);
      for (let cell = 0; cell < 3; cell += 1)
        this.#state[cell] = Math.imul((this.#state[cell] as number) ^ (code + cell), 0x01000193);
    }
    for (let skipped = 0; skipped < 12; skipped += 1) this.#next();
  }

  /** Returns a sequence of its own for a subject, so that one subject's numbers do not depend on another's. */
  fork(subject: string | number): SeededRandom {
    return new SeededRandom(`${this.#seed}/${subject}`);
  }

  number(): number {
    return this.#next() / 2 ** 32;
  }

  // A property, because it is called without its object.
  readonly uuid = (): string => {
    const hex = Array.from({ length: 4 }, () => this.#next().toString(16).padStart(8, '0')).join('');
    const variant = '89ab'[Number.parseInt(hex.charAt(16), 16) & 3];
    return `${hex.slice(0, 8)}-${hex.slice(8, 12)}-4${hex.slice(13, 16)}-${variant}${hex.slice(17, 20)}-${hex.slice(20)}`;
  };

  below(bound: number): number {
    return Math.floor(this.number() * bound);
  }

  between(least: number, most: number): number {
    return least + this.below(most - least + 1);
  }

  chance(probability: number): boolean {
    return this.number() < probability;
  }

  pick<T>(choices: readonly T[]): T {
    return choices[this.below(choices.length)] as T;
  }

  /** Picks a choice with a probability in proportion to its weight. */
  weighted<T>(choices: readonly (readonly [choice: T, weight: number])[]): T {
    let rest = this.number() * choices.reduce((sum, [, weight]) => sum + weight, 0);
    for (const [choice, weight] of choices) {
      rest -= weight;
      if (rest < 0) return choice;
    }
    return (choices.at(-1) as readonly [T, number])[0];
  }

  #next(): number {
    const [a = 0, b = 0, c = 0, d = 0] = this.#state;
    const result = (a + b + d) >>> 0;
    this.#state[3] = d + 1;
    this.#state[0] = b ^ (b >>> 9);
    this.#state[1] = c + (c << 3);
    this.#state[2] = ((c << 21) | (c >>> 11)) + result;
    return result;
  }
}

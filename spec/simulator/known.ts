import type { World } from './world.ts';

/** Time for which a request without an answer may still take effect. */
export const UNCERTAIN_MS = 10_000;

/** A value that requests change, as far as their answers show it. */
export class Known<T> {
  /** The value that has certainly taken effect, with the number that `write` returned. */
  value: { is: T; number: number } | undefined;
  readonly #world: World;
  #requests = 0;
  /** Whether a request has no answer. */
  #isPending = false;
  /** Until when a request without an answer may take effect after a later one. */
  #uncertainUntil = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Called when no request without an answer can take effect any more. */
  settle(): void {
    this.#isPending = false;
    this.#uncertainUntil = 0;
  }

  /** Sends a request of a process. */
  async set(is: T, process: { isDead: boolean }, write: () => Promise<number>): Promise<void> {
    this.value = undefined;
    if (this.#isPending) this.#uncertainUntil = this.#world.now + UNCERTAIN_MS;
    this.#isPending = true;
    this.#requests += 1;
    const request = this.#requests;
    const isCertain = this.#world.now >= this.#uncertainUntil;
    const number = await write();
    if (request !== this.#requests || process.isDead) return;
    this.#isPending = false;
    if (isCertain) this.value = { is, number };
  }
}

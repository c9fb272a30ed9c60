import type { World } from './world.ts';

/** Time for which a request without an answer may still take effect. */
export const UNCERTAIN_MS = 10_000;

/** A value that requests change, as far as their answers show it. */
export class Known<T> {
  /** The value that has certainly taken effect, with the number that `write` returned. */
  value: { is: T; number: number } | undefined;
  readonly #world: World;
  readonly #pending = new Set<{ process: { isDead: boolean } }>();
  #requests = 0;
  #uncertainUntil = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Called when no request without an answer can take effect any more. */
  settle(): void {
    this.#pending.clear();
  }

  /** Sends a request of a process. */
  async set(is: T, process: { isDead: boolean }, write: () => Promise<number>): Promise<void> {
    this.value = undefined;
    for (const other of this.#pending) if (other.process.isDead) this.#end(other, false);
    const request = ++this.#requests;
    const pending = { process };
    const isFirst = this.#pending.size === 0;
    this.#pending.add(pending);
    let isCertain = false;
    try {
      const number = await write();
      isCertain = isFirst && request === this.#requests && !process.isDead;
      if (isCertain && this.#world.now >= this.#uncertainUntil) this.value = { is, number };
    } finally {
      this.#end(pending, isCertain);
    }
  }

  #end(pending: { process: { isDead: boolean } }, isCertain: boolean): void {
    this.#pending.delete(pending);
    if (!isCertain) this.#uncertainUntil = this.#world.now + UNCERTAIN_MS;
  }
}

import { setImmediate as turn } from 'node:timers/promises';

/** Waits before which callbacks run, and their number of turns. */
const [LONG_MS, TURNS] = [1000, 6];

export type Time = Pick<SimulatedTime, 'now' | 'timer' | 'pass'>;

/** Each timer runs in a turn of its own. */
export class SimulatedTime {
  /** Milliseconds since the epoch. */
  now = 1_800_000_000_000;
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

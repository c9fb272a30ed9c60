import type { Clock } from '../../workers/shared/clock.ts';

/** Interval of the rounds. */
const ROUND_MS = 10;
/** Maximum number of bytes that are sent in one round. Only the last client may exceed it. */
const ROUND_BYTES = 256 * 1024;

interface Replaying {
  /** Sends messages until the client is slow. Returns the number of their bytes. */
  continueReplay(): number;
}

/**
 * Paces the replays of clients that resume: in each round, a client gets as much as makes it slow. So a client that
 * resumes again and again delays neither ticks nor other clients.
 */
export class ReplayQueue {
  readonly #clock: Pick<Clock, 'timer'>;
  /** Clients whose socket has drained, in the order of their turns. */
  readonly #waiting = new Set<Replaying>();
  #isScheduled = false;

  constructor(clock: Pick<Clock, 'timer'>) {
    this.#clock = clock;
  }

  add(client: Replaying): void {
    this.#waiting.add(client);
    if (this.#isScheduled) return;
    this.#isScheduled = true;
    this.#clock.timer(ROUND_MS, () => this.#startRound());
  }

  #startRound(): void {
    this.#isScheduled = false;
    let bytes = 0;
    for (const client of this.#waiting) {
      this.#waiting.delete(client);
      bytes += client.continueReplay();
      if (bytes >= ROUND_BYTES) break;
    }
    for (const client of this.#waiting) this.add(client);
  }
}

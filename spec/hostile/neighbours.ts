import { crc32 } from 'node:zlib';
import { Crowd } from '../load/crowd.ts';
import { type Remote, serveCalls, startChild } from '../support/child.ts';
import { watchDelays } from '../support/delays.ts';
import { Ledger } from '../support/ledger.ts';
import { request } from '../support/program.ts';
import { type Random, randomFrom } from '../support/seed.ts';

/** Tick interval of the process under attack: short, so that even a short stall delays a tick. */
export const TICK_INTERVAL_MS = 100;
export const STREAMS = 20;
/** Longest waits for the first ticks, and for outstanding ticks at the end of a window. */
const FIRST_TICKS_MS = 10_000;
const CATCH_UP_MS = 2000;

const SUBMISSION_MS = 100;
const PROBE_MS = 1000;
/** Longest wait until all accepted tasks have settled. Tasks of the attack may precede them in the queue. */
const ACCOUNT_MS = 60_000;
/** Number of task kinds that succeed. The next kind in the ledger fails and becomes a dead letter. */
const SUCCEEDING = 3;
const FAILING = 20;

export type Sight = Awaited<ReturnType<Neighbours['end']>>;

/**
 * Well-behaved clients, in a process of their own so that an attack does not distort their clocks. They send each
 * request on schedule, without waiting for earlier responses.
 */
export class Neighbours {
  readonly #delays = watchDelays();
  #crowd!: Crowd;
  #ledger = new Ledger();
  #random!: Random;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #pending = new Set<Promise<void>>();
  #beganMs = 0;
  #seen = { submitted: 0, submitMs: 0, probes: 0, healthMs: 0 };
  /** Number of failed submissions and probes by status. */
  #errors: Record<string, number> = {};

  async join(port: number, token: string): Promise<void> {
    const target = { host: '127.0.0.1', port, path: '/ws/ticker', token };
    this.#crowd = new Crowd({ target, connections: STREAMS, concurrency: STREAMS, intervalMs: TICK_INTERVAL_MS });
    await this.#crowd.gather();
    if (this.#crowd.lost > 0) throw new Error(`a neighbour cannot join: ${[...this.#crowd.losses.keys()]}`);
    const deadline = performance.now() + FIRST_TICKS_MS;
    while (this.#crowd.record.ticks < 2) {
      if (performance.now() > deadline) throw new Error('no ticks');
      await new Promise((resolve) => setTimeout(resolve, 10));
    }
  }

  /** Starts a window with ten submissions and one health probe a second. */
  begin(services: { tasks: string; admin: string }, seed: number): void {
    this.#ledger = new Ledger();
    this.#random = randomFrom(crc32('neighbours'), seed);
    this.#seen = { submitted: 0, submitMs: 0, probes: 0, healthMs: 0 };
    this.#errors = {};
    this.#crowd.startOver();
    this.#crowd.losses.clear();
    this.#delays.reset();
    this.#beganMs = performance.now();
    this.#every(SUBMISSION_MS, () => this.#submit(services.tasks));
    this.#every(PROBE_MS, () => this.#probe(services.admin));
  }

  /** Waits for pending responses and outstanding ticks, and returns the observations. */
  async end() {
    const seconds = (performance.now() - this.#beganMs) / 1000;
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
    await Promise.all(this.#pending);
    const lacking = await this.#crowd.catchUp(CATCH_UP_MS);
    const { ticks, missed, lateness } = this.#crowd.record.report();
    return {
      seconds,
      open: this.#crowd.size,
      ticks,
      /** Ticks that at least one client missed and another client received. */
      missed: missed + lacking,
      tickMs: lateness.max,
      ...this.#seen,
      accepted: this.#ledger.size,
      /** Longest event-loop delay of the neighbours' process, which measures the machine and not the services. */
      machineMs: this.#delays.worstMs(),
      errors: this.#errors,
      disconnections: Object.fromEntries(this.#crowd.losses) as Record<string, number>,
    };
  }

  /** Waits until every accepted task of the latest window is settled as expected. */
  async account(tasks: string): Promise<void> {
    const late = new Promise<never>((_, reject) => {
      setTimeout(reject, ACCOUNT_MS, new Error('accepted tasks are neither rows nor dead letters')).unref();
    });
    await Promise.race([this.#ledger.accountedFor(tasks), late]);
  }

  leave(): void {
    this.#crowd.disperse();
  }

  #every(milliseconds: number, step: () => Promise<void>): void {
    const run = () => {
      const pending = step().finally(() => this.#pending.delete(pending));
      this.#pending.add(pending);
    };
    run();
    this.#timers.push(setInterval(run, milliseconds));
  }

  async #submit(tasks: string): Promise<void> {
    const began = performance.now();
    const kind = this.#seen.submitted++ % FAILING === FAILING - 1 ? SUCCEEDING : this.#random.below(SUCCEEDING);
    const status = await this.#ledger.submit(tasks, this.#random, kind).catch((error: Error) => error.message);
    if (status !== 202) this.#fail(`submission: ${status ?? 'no answer'}`);
    this.#seen.submitMs = Math.max(this.#seen.submitMs, performance.now() - began);
  }

  async #probe(admin: string): Promise<void> {
    const began = performance.now();
    const answer = await request(`${admin}/healthz`).catch(() => undefined);
    if (answer?.status !== 200) this.#fail(`probe: ${answer?.status ?? 'no answer'}`);
    this.#seen.probes++;
    this.#seen.healthMs = Math.max(this.#seen.healthMs, performance.now() - began);
  }

  #fail(error: string): void {
    this.#errors[error] = (this.#errors[error] ?? 0) + 1;
  }
}

export function startNeighbours(): Remote<Neighbours> {
  return startChild<Neighbours>(import.meta.url);
}

if (import.meta.main) serveCalls(new Neighbours());

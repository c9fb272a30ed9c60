import { crc32 } from 'node:zlib';
import { Crowd } from '../load/crowd.ts';
import { serveCalls, startChild } from '../support/child.ts';
import { watchDelays } from '../support/crowd.ts';
import { Ledger } from '../support/ledger.ts';
import { request } from '../support/program.ts';
import { randomFrom } from '../support/seed.ts';
import { inTime, until } from '../support/until.ts';

/** Tick interval of the process under attack: short, so that even a short stall delays a tick. */
export const TICK_INTERVAL_MS = 100;
export const STREAMS = 20;
const CATCH_UP_MS = 2000;

const SUBMISSION_MS = 100;
const PROBE_MS = 1000;
/** Longest wait until all accepted tasks have settled. Tasks of the attack may precede them in the queue. */
const MAX_WAIT_MS = 60_000;
/** Number of task kinds that succeed. The next kind in the ledger fails and becomes a dead letter. */
const SUCCEEDING = 3;
const FAILING = 20;

export type Sight = Awaited<ReturnType<Neighbours['end']>>;

const newWindow = (seed: number) => ({
  beganMs: performance.now(),
  ledger: new Ledger(),
  random: randomFrom(crc32('neighbours'), seed),
  submitted: 0,
  ...{ submitMs: 0, healthMs: 0 },
  errors: {} as Record<string, number>,
});

/**
 * Well-behaved clients, in a process of their own so that an attack does not distort their clocks. They send each
 * request on schedule, without waiting for earlier responses.
 */
export class Neighbours {
  readonly #delays = watchDelays();
  #crowd!: Crowd;
  readonly #timers: NodeJS.Timeout[] = [];
  readonly #pending = new Set<Promise<void>>();
  #window = newWindow(0);

  async join(port: number, token: string): Promise<void> {
    const target = { host: '127.0.0.1', port, path: '/ws/ticker', token };
    this.#crowd = new Crowd({ target, connections: STREAMS, concurrency: STREAMS, intervalMs: TICK_INTERVAL_MS });
    await this.#crowd.gather();
    if (this.#crowd.lost > 0) throw new Error(`a neighbour cannot join: ${[...this.#crowd.losses.keys()]}`);
    const ticking = until(() => this.#crowd.record.ticks >= 2);
    await inTime(MAX_WAIT_MS, 'no ticks', ticking);
  }

  begin(services: { tasks: string; admin: string }, seed: number): void {
    this.#crowd.startOver();
    this.#crowd.losses.clear();
    this.#delays.reset();
    this.#window = newWindow(seed);
    this.#every(SUBMISSION_MS, () => this.#submit(services.tasks));
    this.#every(PROBE_MS, () => this.#probe(services.admin));
  }

  /** Waits for pending responses and outstanding ticks, and returns the observations. */
  async end() {
    const seconds = (performance.now() - this.#window.beganMs) / 1000;
    for (const timer of this.#timers.splice(0)) clearInterval(timer);
    await Promise.all(this.#pending);
    const lacking = await this.#crowd.catchUp(CATCH_UP_MS);
    const { ticks, missed, lateness } = this.#crowd.record.report();
    const { ledger, submitMs, healthMs, errors } = this.#window;
    return {
      ...{ seconds, submitMs, healthMs, errors },
      open: this.#crowd.size,
      ticks,
      /** Ticks that at least one client missed and another client received. */
      missed: missed + lacking,
      tickMs: lateness.max,
      accepted: ledger.size,
      /** Longest event-loop delay of the neighbours' process, which measures the machine and not the services. */
      machineMs: this.#delays.worstMs(),
      disconnections: Object.fromEntries(this.#crowd.losses) as Record<string, number>,
    };
  }

  async account(tasks: string): Promise<void> {
    const accounted = this.#window.ledger.accountedFor(tasks);
    await inTime(MAX_WAIT_MS, 'accepted tasks are neither rows nor dead letters', accounted);
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
    const { ledger, random } = this.#window;
    const began = performance.now();
    const kind = this.#window.submitted++ % FAILING === FAILING - 1 ? SUCCEEDING : random.below(SUCCEEDING);
    const status = await ledger.submit(tasks, random, kind).catch((error: Error) => error.message);
    if (status !== 202) this.#fail(`submission: ${status ?? 'no answer'}`);
    this.#window.submitMs = Math.max(this.#window.submitMs, performance.now() - began);
  }

  async #probe(admin: string): Promise<void> {
    const began = performance.now();
    const answer = await request(`${admin}/healthz`).catch(() => undefined);
    if (answer?.status !== 200) this.#fail(`probe: ${answer?.status ?? 'no answer'}`);
    this.#window.healthMs = Math.max(this.#window.healthMs, performance.now() - began);
  }

  #fail(error: string): void {
    const { errors } = this.#window;
    errors[error] = (errors[error] ?? 0) + 1;
  }
}

export const startNeighbours = () => startChild<Neighbours>(import.meta.url);

if (import.meta.main) serveCalls(new Neighbours());

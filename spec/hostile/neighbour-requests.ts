import { Ledger } from '../support/ledger.ts';
import { request } from '../support/program.ts';
import type { Random } from '../support/seed.ts';
import type { Sight } from './neighbours.ts';
import { randomOf } from './random.ts';

const SUBMISSION_MS = 100;
const PROBE_MS = 1000;
/** Longest wait until all accepted tasks have settled. Tasks of the attack may precede them in the queue. */
const ACCOUNT_MS = 60_000;
/** Number of task kinds that succeed. The next kind in the ledger fails and becomes a dead letter. */
const SUCCEEDING = 3;
/** One in this number of submissions fails. */
const FAILING = 20;

/** Sends ten submissions and one health probe a second, each on schedule, without waiting for earlier responses. */
export class NeighbourRequests {
  readonly #ledger = new Ledger();
  readonly #random: Random;
  readonly #timers: NodeJS.Timeout[];
  readonly #pending = new Set<Promise<void>>();
  readonly #seen = { submitted: 0, submitMs: 0, probes: 0, healthMs: 0 };
  readonly #errors: Record<string, number> = {};

  constructor({ tasks, admin, seed }: { tasks: string; admin: string; seed: number }) {
    this.#random = randomOf('neighbours', seed);
    const every = (milliseconds: number, step: () => Promise<void>) => {
      const run = () => {
        const pending = step().finally(() => this.#pending.delete(pending));
        this.#pending.add(pending);
      };
      run();
      return setInterval(run, milliseconds);
    };
    this.#timers = [every(SUBMISSION_MS, () => this.#submit(tasks)), every(PROBE_MS, () => this.#probe(admin))];
  }

  /** Waits for pending responses, and returns the observations. */
  async end(): Promise<Pick<Sight, 'submitted' | 'accepted' | 'submitMs' | 'probes' | 'healthMs' | 'errors'>> {
    for (const timer of this.#timers) clearInterval(timer);
    await Promise.all(this.#pending);
    return { ...this.#seen, accepted: this.#ledger.size, errors: this.#errors };
  }

  /** Waits until every accepted task is completed or failed as expected, or fails after {@link ACCOUNT_MS}. */
  async account(tasks: string): Promise<void> {
    const late = new Promise<never>((_, reject) => {
      setTimeout(reject, ACCOUNT_MS, new Error('accepted tasks are neither rows nor dead letters')).unref();
    });
    await Promise.race([this.#ledger.accountedFor(tasks), late]);
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
    const status = await request(`${admin}/healthz`).then(
      (answer) => answer.status,
      () => 'no answer',
    );
    if (status !== 200) this.#fail(`probe: ${status}`);
    this.#seen.probes++;
    this.#seen.healthMs = Math.max(this.#seen.healthMs, performance.now() - began);
  }

  #fail(error: string): void {
    this.#errors[error] = (this.#errors[error] ?? 0) + 1;
  }
}

import type { Delivery } from '../../db/task-store.ts';
import { type AttemptListener, type Outcome, Run, STOPPED } from '../../main/tasks/pool/run.ts';
import type { ThreadPool } from '../../main/tasks/pool/thread-pool.ts';
import { Histogram } from '../../workers/shared/histogram.ts';
import type { History } from './history.ts';
import type { Process } from './process.ts';
import type { SeededRandom } from './random.ts';
import type { World } from './world.ts';

/** How the handler of a task behaves. */
export const moods = [
  ...['quick', 'slow', 'large', 'flaky', 'hopeless', 'later', 'reporting', 'hanging', 'stubborn', 'crashing'],
  ...['acking', 'nacking', 'ackingThenFailing', 'deadly'],
] as const;

export type Mood = (typeof moods)[number];

/** An action of a handler, after the one before it. */
interface Act {
  afterMs: number;
  act: (attempt: Attempt) => void;
}

interface Script {
  acts: Act[];
  /** Whether the handler ends when its signal is aborted. */
  heedsAbort: boolean;
}

/** An attempt in a thread. */
interface Attempt {
  run: Run;
  script: Script;
  cancelTimers: (() => void)[];
}

const TIME_LIMIT_MS = 3000;
const GRACE_MS = 500;
const RESTART_MS = 50;
const LARGE = 'x'.repeat(100 * 1024);
const raised = (reason: string, permanent = false): Outcome => ({ ended: 'raised', reason, permanent });

/** Pool whose handlers follow scripts. Each thread runs one handler at a time. */
export class SimulatedPool
  implements
    Pick<
      ThreadPool,
      'threads' | 'overlap' | 'busy' | 'serving' | 'durations' | 'run' | 'cancel' | 'releaseWaiting' | 'stop'
    >
{
  readonly threads: number;
  readonly overlap = 1;
  readonly serving = true;
  readonly durations = new Histogram([1]);
  readonly #process: Process;
  readonly #world: World;
  readonly #history: History;
  readonly #random: SeededRandom;
  readonly #waiting: Run[] = [];
  readonly #attempts = new Set<Attempt>();
  #free: number;
  #runs = 0;
  #isStopping = false;
  readonly #idle = Promise.withResolvers<void>();

  constructor(process: Process, world: World, history: History, random: SeededRandom) {
    this.#process = process;
    this.#world = world;
    this.#history = history;
    this.#random = random;
    this.threads = world.setting.threads;
    this.#free = this.threads;
  }

  get busy(): number {
    return this.#attempts.size;
  }

  run(delivery: Delivery, listener: AttemptListener): Promise<Outcome> {
    if (this.#isStopping) return Promise.resolve(STOPPED);
    const history = this.#history;
    const recording = history.begin(delivery, listener, () => this.busy);
    const run = new Run(++this.#runs, delivery, recording);
    // Recorded before the dispatcher settles the delivery.
    void run.outcome.then((outcome) => history.onEnd(delivery, outcome));
    this.#waiting.push(run);
    this.#assign();
    return run.outcome;
  }

  cancel(delivery: Delivery): boolean {
    const index = this.#waiting.findIndex((run) => run.delivery === delivery);
    if (index >= 0) {
      this.#waiting.splice(index, 1)[0]?.end({ ended: 'released', reason: 'cancelled' });
      return true;
    }
    const attempt = [...this.#attempts].find(({ run }) => run.delivery === delivery);
    if (attempt === undefined || attempt.run.isCancelled) return false;
    attempt.run.isCancelled = true;
    this.#abort(attempt, raised('the task was cancelled'));
    return false;
  }

  releaseWaiting(): void {
    for (const run of this.#waiting.splice(0)) run.end({ ended: 'released', reason: 'no thread was free' });
  }

  async stop(deadline: Promise<void>): Promise<void> {
    this.#isStopping = true;
    this.releaseWaiting();
    for (const attempt of this.#attempts) this.#abort(attempt, { ended: 'released', reason: 'shutdown' });
    if (this.#attempts.size > 0) await Promise.race([this.#idle.promise, deadline]);
    for (const attempt of this.#attempts) this.#end(attempt, { ended: 'released', reason: 'the pool is stopped' });
  }

  #assign(): void {
    for (let run = this.#waiting[0]; run !== undefined && this.#free > 0; run = this.#waiting[0]) {
      this.#waiting.shift();
      this.#free -= 1;
      this.#history.onAssign(run.delivery);
      const script = this.#scriptOf(run.delivery);
      const attempt: Attempt = { run, script, cancelTimers: [] };
      this.#attempts.add(attempt);
      this.#after(attempt, this.#random.below(3), () => this.#start(attempt));
    }
  }

  #start(attempt: Attempt): void {
    attempt.run.start();
    this.#after(attempt, TIME_LIMIT_MS, () => {
      attempt.run.hasTimedOut = true;
      this.#abort(attempt, raised('the signal was aborted at the time limit'));
    });
    this.#next(attempt, 0);
  }

  #next(attempt: Attempt, index: number): void {
    const next = attempt.script.acts[index];
    if (next === undefined) return;
    this.#after(attempt, next.afterMs, () => {
      next.act(attempt);
      this.#next(attempt, index + 1);
    });
  }

  /** Aborts a handler's signal, and ends the thread of a handler that ignores it. */
  #abort(attempt: Attempt, outcome: Outcome): void {
    if (attempt.run.isAborted) return;
    attempt.run.isAborted = true;
    if (attempt.script.heedsAbort) this.#after(attempt, 1, () => this.#end(attempt, outcome));
    this.#after(attempt, GRACE_MS, () => {
      this.#crash(
        attempt,
        attempt.run.hasTimedOut ? `took longer than ${TIME_LIMIT_MS} ms` : 'thread died: terminated',
      );
    });
  }

  #crash(attempt: Attempt, reason: string): void {
    if (this.#isStopping) this.#end(attempt, { ended: 'released', reason });
    else this.#end(attempt, { ended: 'crashed', reason }, RESTART_MS);
  }

  /** @param restartMs time after which the thread is replaced, if it has ended */
  #end(attempt: Attempt, outcome: Outcome, restartMs = 0): void {
    if (!this.#attempts.delete(attempt)) return;
    for (const cancel of attempt.cancelTimers) cancel();
    attempt.run.end(outcome);
    const free = () => {
      this.#free += 1;
      this.#assign();
    };
    if (restartMs === 0) free();
    else this.#process.clock.timer(restartMs, free);
    if (this.#isStopping && this.#attempts.size === 0) this.#idle.resolve();
  }

  /** Ends the whole process, as a handler can. */
  #endProcess(): void {
    this.#process.isKillDue = true;
  }

  #after(attempt: Attempt, ms: number, run: () => void): void {
    attempt.cancelTimers.push(this.#process.clock.timer(ms * this.#world.pace, run));
  }

  #scriptOf(delivery: Delivery): Script {
    const { name, mood } = this.#history.submissionOf(delivery.id);
    // Not from the common sequence, so that a run does the same when steps are left out.
    const random = this.#random.fork(`${name} ${delivery.delivery}`);
    const after = (most: number, act: Act['act']): Act => ({ afterMs: random.below(most), act });
    const end = (outcome: Outcome, most = 20) => after(most, (attempt) => this.#end(attempt, outcome));
    const output = JSON.stringify(`${name}, delivery ${delivery.delivery}`);
    const returned = (most = 20) => end({ ended: 'returned', output }, most);
    const acknowledged = (how: 'ack' | 'nack') => after(20, ({ run }) => run.acknowledge(how));
    const crashed = (most: number) => after(most, (attempt) => this.#crash(attempt, 'thread died: exit code 1'));
    const progress = () => {
      const fraction = random.below(100) / 100;
      return after(300, ({ run }) => run.report({ fraction }));
    };
    const scripts: Record<Mood, () => Script['acts']> = {
      quick: () => [returned(5)],
      slow: () => [returned(2500)],
      large: () => [end({ ended: 'returned', output: JSON.stringify(`${name} ${random.chance(0.3) ? LARGE : ''}`) })],
      flaky: () => [random.chance(0.5) ? end(raised('the network is away')) : returned()],
      hopeless: () => [end(raised('the data is wrong', true))],
      later: () => [
        random.chance(0.5)
          ? end({ ...(raised('busy') as object), retryAfterMs: random.below(5000) } as Outcome)
          : returned(),
      ],
      reporting: () => [progress(), progress(), random.chance(0.3) ? end(raised('failed after progress')) : returned()],
      hanging: () => [],
      stubborn: () => (random.chance(0.5) ? [] : [returned(4000)]),
      crashing: () => [random.chance(0.6) ? crashed(20) : returned()],
      acking: () => [acknowledged('ack'), returned(100)],
      nacking: () => [acknowledged('nack'), returned(100)],
      ackingThenFailing: () => [
        acknowledged('ack'),
        random.chance(0.5) ? end(raised('failed after its ack'), 100) : crashed(100),
      ],
      deadly: () => [random.chance(0.7) ? after(50, () => this.#endProcess()) : returned()],
    };
    return { acts: scripts[mood](), heedsAbort: mood !== 'stubborn' && random.chance(0.8) };
  }
}

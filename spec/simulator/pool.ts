import type { Delivery } from '../../db/task-store.ts';
import type { DispatcherOptions } from '../../main/tasks/dispatch/dispatcher.ts';
import { type AttemptListener, type Outcome, Run, STOPPED } from '../../main/tasks/pool/run.ts';
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

/** Creates a pool whose handlers follow scripts. Each thread runs one handler at a time. */
export function simulatedPool(
  process: Process,
  world: World,
  history: History,
  random: SeededRandom,
): DispatcherOptions['pool'] {
  const waiting: Run[] = [];
  const attempts = new Set<Attempt>();
  const { threads } = world.setting;
  let [free, runs, isStopping] = [threads, 0, false];
  const idle = Promise.withResolvers<void>();
  /** Ends the whole process, as a handler can. */
  const endProcess = () => {
    process.isKillDue = true;
  };

  function run(delivery: Delivery, listener: AttemptListener): Promise<Outcome> {
    if (isStopping) return Promise.resolve(STOPPED);
    const recording = history.begin(delivery, listener, () => attempts.size);
    const run = new Run(++runs, delivery, recording);
    // Recorded before the dispatcher settles the delivery.
    void run.outcome.then((outcome) => history.onEnd(delivery, outcome));
    waiting.push(run);
    assign();
    return run.outcome;
  }

  function cancel(delivery: Delivery): boolean {
    const index = waiting.findIndex((run) => run.delivery === delivery);
    if (index >= 0) {
      waiting.splice(index, 1)[0]?.end({ ended: 'released', reason: 'cancelled' });
      return true;
    }
    const attempt = [...attempts].find(({ run }) => run.delivery === delivery);
    if (attempt === undefined || attempt.run.isCancelled) return false;
    attempt.run.isCancelled = true;
    abort(attempt, raised('the task was cancelled'));
    return false;
  }

  function releaseWaiting(): void {
    for (const run of waiting.splice(0)) run.end({ ended: 'released', reason: 'no thread was free' });
  }

  async function stop(deadline: Promise<void>): Promise<void> {
    isStopping = true;
    releaseWaiting();
    for (const attempt of attempts) abort(attempt, { ended: 'released', reason: 'shutdown' });
    if (attempts.size > 0) await Promise.race([idle.promise, deadline]);
    for (const attempt of attempts) end(attempt, { ended: 'released', reason: 'the pool is stopped' });
  }

  function assign(): void {
    for (let run = waiting[0]; run !== undefined && free > 0; run = waiting[0]) {
      waiting.shift();
      free -= 1;
      history.onAssign(run.delivery);
      const script = scriptOf(run.delivery);
      const attempt: Attempt = { run, script, cancelTimers: [] };
      attempts.add(attempt);
      after(attempt, random.below(3), () => start(attempt));
    }
  }

  function start(attempt: Attempt): void {
    attempt.run.start();
    after(attempt, TIME_LIMIT_MS, () => {
      attempt.run.hasTimedOut = true;
      abort(attempt, raised('the signal was aborted at the time limit'));
    });
    next(attempt, 0);
  }

  function next(attempt: Attempt, index: number): void {
    const action = attempt.script.acts[index];
    if (action === undefined) return;
    after(attempt, action.afterMs, () => {
      action.act(attempt);
      next(attempt, index + 1);
    });
  }

  /** Aborts a handler's signal, and ends the thread of a handler that ignores it. */
  function abort(attempt: Attempt, outcome: Outcome): void {
    if (attempt.run.isAborted) return;
    attempt.run.isAborted = true;
    if (attempt.script.heedsAbort) after(attempt, 1, () => end(attempt, outcome));
    after(attempt, GRACE_MS, () => {
      const reason = attempt.run.hasTimedOut ? `took longer than ${TIME_LIMIT_MS} ms` : 'thread died: terminated';
      crash(attempt, reason);
    });
  }

  function crash(attempt: Attempt, reason: string): void {
    if (isStopping) end(attempt, { ended: 'released', reason });
    else end(attempt, { ended: 'crashed', reason }, RESTART_MS);
  }

  /** @param restartMs time after which the thread is replaced, if it has ended */
  function end(attempt: Attempt, outcome: Outcome, restartMs = 0): void {
    if (!attempts.delete(attempt)) return;
    for (const cancel of attempt.cancelTimers) cancel();
    attempt.run.end(outcome);
    const replace = () => {
      free += 1;
      assign();
    };
    if (restartMs === 0) replace();
    else process.clock.timer(restartMs, replace);
    if (isStopping && attempts.size === 0) idle.resolve();
  }

  function after(attempt: Attempt, ms: number, run: () => void): void {
    attempt.cancelTimers.push(process.clock.timer(ms * world.pace, run));
  }

  function scriptOf(delivery: Delivery): Script {
    const { name, mood } = history.submissionOf(delivery.id);
    // Not from the common sequence, so that a run does the same when steps are left out.
    const own = random.fork(`${name} ${delivery.delivery}`);
    const act = (most: number, run: Act['act']): Act => ({ afterMs: own.below(most), act: run });
    const ending = (outcome: Outcome, most = 20) => act(most, (attempt) => end(attempt, outcome));
    const output = JSON.stringify(`${name}, delivery ${delivery.delivery}`);
    const returned = (most = 20) => ending({ ended: 'returned', output }, most);
    const acknowledged = (how: 'ack' | 'nack') => act(20, ({ run }) => run.acknowledge(how));
    const crashed = (most: number) => act(most, (attempt) => crash(attempt, 'thread died: exit code 1'));
    const progress = () => {
      const fraction = own.below(100) / 100;
      return act(300, ({ run }) => run.report({ fraction }));
    };
    const scripts: Record<Mood, () => Script['acts']> = {
      quick: () => [returned(5)],
      slow: () => [returned(2500)],
      large: () => [ending({ ended: 'returned', output: JSON.stringify(`${name} ${own.chance(0.3) ? LARGE : ''}`) })],
      flaky: () => [own.chance(0.5) ? ending(raised('the network is away')) : returned()],
      hopeless: () => [ending(raised('the data is wrong', true))],
      later: () => [
        own.chance(0.5)
          ? ending({ ...(raised('busy') as object), retryAfterMs: own.below(5000) } as Outcome)
          : returned(),
      ],
      reporting: () => [progress(), progress(), own.chance(0.3) ? ending(raised('failed after progress')) : returned()],
      hanging: () => [],
      stubborn: () => (own.chance(0.5) ? [] : [returned(4000)]),
      crashing: () => [own.chance(0.6) ? crashed(20) : returned()],
      acking: () => [acknowledged('ack'), returned(100)],
      nacking: () => [acknowledged('nack'), returned(100)],
      ackingThenFailing: () => [
        acknowledged('ack'),
        own.chance(0.5) ? ending(raised('failed after its ack'), 100) : crashed(100),
      ],
      deadly: () => [own.chance(0.7) ? act(50, endProcess) : returned()],
    };
    return { acts: scripts[mood](), heedsAbort: mood !== 'stubborn' && own.chance(0.8) };
  }

  return { run, cancel, releaseWaiting, stop };
}

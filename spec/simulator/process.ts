import { setImmediate as turn } from 'node:timers/promises';
import type { Delivery } from '../../db/task-store.ts';
import { Dispatcher, type DispatcherOptions } from '../../main/tasks/dispatch/dispatcher.ts';
import { taskIds } from '../../main/tasks/http/prepare-submission.ts';
import { type AttemptListener, type Outcome, Run, STOPPED } from '../../main/tasks/pool/run.ts';
import { Queue, type QueueBus } from '../../main/tasks/queue.ts';
import { Scheduler } from '../../main/tasks/schedules/scheduler.ts';
import type { TickFeed } from '../../main/ticker/ticker.ts';
import type { TokenStore } from '../../main/ticker/token-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import type { HandlersManifest } from '../../workers/tasks/messages.ts';
import { sleepOn } from '../support/manual-clock.ts';
import type { SeededRandom } from '../support/random.ts';
import { type ObservedStore, scheduleOf } from './rules.ts';
import type { Mood, World } from './world.ts';

/** Parts of a process that depend on where its state is kept. */
export interface Backend {
  store: ObservedStore;
  /** Returns the state that the table has for a message, if no other process changes it. */
  stateOf?(id: string): string | undefined;
  bus?: QueueBus;
  /** Starts the parts that need the queue. */
  start(): unknown;
  /** Ends the parts at a stop, after the dispatcher. Returns whether the queue is kept. */
  stop(): Promise<boolean>;
}

/** One process: a queue, its dispatcher and handlers, without HTTP and threads. */
export class Process {
  readonly world!: World;
  readonly name!: string;
  /** Number of the process among the others. Its successors have the same. */
  readonly place!: number;
  readonly random!: SeededRandom;
  readonly hasModule!: boolean;
  owner: string;
  readonly clock: Clock = {
    now: () => this.world.now,
    elapsed: () => this.world.now,
    timer: (delayMs, run) => this.#timer(delayMs, run),
    sleep: (delayMs, signal) => sleepOn(this.clock, delayMs, signal),
  };
  readonly newTaskId: () => string;
  isDead = false;
  /** Whether the process stands still as after SIGSTOP, while time goes on. */
  isStill = false;
  /** Time from which on the process has served without standing still. */
  awakeSince = Number.POSITIVE_INFINITY;
  /** Whether a handler has ended the process. */
  isKillDue = false;
  /** Times of schedules before it are missed. */
  firesFrom = Number.POSITIVE_INFINITY;
  /** Closes the connections of a process that was killed. Undefined before they are open. */
  onKill: (() => unknown) | undefined;
  /** The ticks and tokens of one of several nodes. Undefined before they are open. */
  feed: TickFeed | undefined;
  tokens: TokenStore | undefined;
  queue!: Queue;
  scheduler!: Scheduler;
  #isStopping = false;
  #overdue: (() => void)[] = [];
  #backend: Backend | undefined;
  #dispatcher: Dispatcher | undefined;

  constructor(options: Pick<Process, 'world' | 'name' | 'place' | 'random' | 'hasModule'>) {
    Object.assign(this, options);
    this.owner = options.name;
    this.newTaskId = taskIds(options.random);
  }

  get isServing(): boolean {
    return this.#dispatcher !== undefined && !this.isDead && !this.isStill && !this.#isStopping;
  }

  /** Starts the parts in the order of a service. @throws {Error} if the file or the server cannot be used */
  async open(openBackend: (process: Process) => Backend | Promise<Backend>): Promise<void> {
    const { world, random, clock, newTaskId } = this;
    const { log, setting, history } = world;
    const backend = await openBackend(this);
    this.#backend = backend;
    const { store, bus } = backend;
    history.observe(backend, this);
    this.queue = await Queue.open({ store, bus, onEvent: (event) => this.isDead || history.onEvent(event), clock });
    const { queue } = this;
    const pool = simulatedPool(this, random.fork('handlers'));
    const callbacks = simulatedSender(clock, random.fork('callbacks'));
    this.scheduler = new Scheduler({ queue, actions, newTaskId, clock, log });
    const { prefetch } = setting;
    const dispatcher = new Dispatcher({ queue, pool, callbacks, prefetch, actions, clock, random, log });
    await store.start();
    await backend.start();
    this.#dispatcher = dispatcher;
    this.awakeSince = world.now;
    dispatcher.start();
  }

  /** Starts to fire the schedules, and stores that of the handlers module. @throws {Error} if it cannot be stored */
  async startSchedules(): Promise<void> {
    const { clock, world, hasModule } = this;
    const [schedule] = world.setting.schedules;
    if (schedule === undefined) return;
    const definition = scheduleOf(schedule, 'quick', false, clock.now());
    await this.scheduler.start(new Map(hasModule ? [[schedule, definition]] : []));
    this.firesFrom = clock.now();
  }

  /** Stops as a service does at SIGTERM. Returns whether the queue is kept. @param answered resolves when all requests are */
  async stop(answered: Promise<unknown>): Promise<boolean> {
    const { clock, queue } = this;
    this.#isStopping = true;
    await this.scheduler.stop();
    await Promise.race([answered, clock.sleep(2000)]);
    const deadline = clock.sleep(9000);
    if (!queue.store.isDurable) await this.#dispatcher?.drain(deadline, clock.sleep(5000));
    await this.#dispatcher?.stop(deadline);
    queue.close();
    return this.#backend?.stop() ?? true;
  }

  kill(): void {
    this.isDead = true;
    this.world.history.limits.gone(this.owner);
    this.onKill?.();
  }

  async goOn(): Promise<void> {
    if (!this.isStill) return;
    this.isStill = false;
    this.awakeSince = this.clock.now();
    for (const fire of this.#overdue.splice(0)) {
      fire();
      await turn();
    }
  }

  /** No timer fires after the death of the process. */
  #timer(delayMs: number, run: () => void): () => void {
    let isCancelled = false;
    const fire = () => {
      if (this.isDead || isCancelled) return;
      if (this.isStill) this.#overdue.push(fire);
      else run();
    };
    const cancel = this.world.time.timer(delayMs, fire);
    return () => {
      isCancelled = true;
      cancel();
    };
  }
}

class Attempt extends Run {
  /** Whether the handler ends when its signal is aborted. */
  heedsAbort = true;
  readonly cancelTimers: (() => void)[] = [];
}

type Script = { afterMs: number; act: (attempt: Attempt) => unknown }[];

export const actions: HandlersManifest = new Map([['twice', { maxAttempts: 2 }]]);

const TIME_LIMIT_MS = 3000;
const GRACE_MS = 500;
const RESTART_MS = 50;
const LARGE = 'x'.repeat(100 * 1024);
const raised = (reason: string, permanent = false) => ({ ended: 'raised' as const, reason, permanent });
const released = (reason: string): Outcome => ({ ended: 'released', reason });

function simulatedPool(process: Process, random: SeededRandom): DispatcherOptions['pool'] {
  const { clock, world } = process;
  const { history, setting, pace } = world;
  const waiting: Attempt[] = [];
  const attempts = new Set<Attempt>();
  let [free, runs, isStopping] = [setting.threads, 0, false];

  function run(delivery: Delivery, listener: AttemptListener): Promise<Outcome> {
    if (isStopping) return Promise.resolve(STOPPED);
    runs += 1;
    const watched = history.begin(delivery, listener, () => attempts.size);
    const run = new Attempt(runs, delivery, watched);
    // Recorded before the dispatcher settles the delivery.
    void run.outcome.then((outcome) => history.onEnd(delivery, outcome));
    waiting.push(run);
    assign();
    return run.outcome;
  }

  function cancel(delivery: Delivery): boolean {
    const index = waiting.findIndex((run) => run.delivery === delivery);
    if (index >= 0) {
      waiting.splice(index, 1)[0]?.end(released('cancelled'));
      return true;
    }
    const attempt = [...attempts].find((each) => each.delivery === delivery);
    if (attempt === undefined || attempt.isCancelled) return false;
    attempt.isCancelled = true;
    abort(attempt, raised('the task was cancelled'));
    return false;
  }

  const releaseWaiting = () => {
    for (const run of waiting.splice(0)) run.end(released('no thread was free'));
  };

  async function stop(deadline: Promise<void>): Promise<void> {
    isStopping = true;
    releaseWaiting();
    for (const attempt of attempts) abort(attempt, released('shutdown'));
    await Promise.race([Promise.all([...attempts].map(({ outcome }) => outcome)), deadline]);
    for (const attempt of attempts) end(attempt, released('the pool is stopped'));
  }

  function assign(): void {
    for (const attempt of waiting.splice(0, free)) {
      free -= 1;
      history.onAssign(attempt.delivery, process);
      const script = scriptOf(attempt);
      attempts.add(attempt);
      after(attempt, random.below(3), () => start(attempt, script));
    }
  }

  function start(attempt: Attempt, script: Script): void {
    attempt.start();
    after(attempt, TIME_LIMIT_MS, () => {
      attempt.hasTimedOut = true;
      abort(attempt, raised('the signal was aborted at the time limit'));
    });
    let afterMs = 0;
    for (const action of script) {
      afterMs += action.afterMs;
      after(attempt, afterMs, () => action.act(attempt));
    }
  }

  /** Aborts a handler's signal, and ends the thread of a handler that ignores it. */
  function abort(attempt: Attempt, outcome: Outcome): void {
    if (attempt.isAborted) return;
    attempt.isAborted = true;
    if (attempt.heedsAbort) after(attempt, 1, () => end(attempt, outcome));
    after(attempt, GRACE_MS, () =>
      crash(attempt, attempt.hasTimedOut ? `took longer than ${TIME_LIMIT_MS} ms` : 'thread died: terminated'),
    );
  }

  function crash(attempt: Attempt, reason: string): void {
    if (isStopping) end(attempt, released(reason));
    else end(attempt, { ended: 'crashed', reason }, RESTART_MS);
  }

  /** @param restartMs time after which the thread is replaced, if it has ended */
  function end(attempt: Attempt, outcome: Outcome, restartMs = 0): void {
    if (!attempts.delete(attempt)) return;
    for (const cancel of attempt.cancelTimers) cancel();
    attempt.end(outcome);
    const replace = () => {
      free += 1;
      assign();
    };
    if (restartMs === 0) replace();
    else clock.timer(restartMs, replace);
  }

  function after(attempt: Attempt, ms: number, run: () => void): void {
    attempt.cancelTimers.push(clock.timer(ms * pace, run));
  }

  function scriptOf(attempt: Attempt): Script {
    const { delivery } = attempt;
    const name = history.nameOf(delivery.id);
    const { mood }: { mood: Mood } = JSON.parse(delivery.body).data;
    // Not from the common sequence, so that a run does the same when steps are left out.
    const own = random.fork(`${name} ${delivery.delivery}`);
    const act = (most: number, run: Script[number]['act']) => ({ afterMs: own.below(most), act: run });
    const ending = (outcome: Outcome, most = 20) => act(most, (attempt) => end(attempt, outcome));
    const returned = (most = 20, text = `${name}, delivery ${delivery.delivery}`) =>
      ending({ ended: 'returned', output: JSON.stringify(text) }, most);
    const failed = (reason: string, most?: number) => ending(raised(reason), most);
    const acknowledged = (how: 'ack' | 'nack') => act(20, (attempt) => attempt.acknowledge(how));
    const crashed = (most: number) => act(most, (attempt) => crash(attempt, 'thread died: exit code 1'));
    const progress = (fraction = own.below(100) / 100) => act(300, (attempt) => attempt.report({ fraction }));
    const scripts: Record<Mood, () => Script> = {
      quick: () => [returned(5)],
      slow: () => [returned(2500)],
      large: () => [returned(20, `${name} ${own.chance(0.3) ? LARGE : ''}`)],
      flaky: () => [own.chance(0.5) ? failed('the network is away') : returned()],
      hopeless: () => [ending(raised('the data is wrong', true))],
      later: () => [own.chance(0.5) ? ending({ ...raised('busy'), retryAfterMs: own.below(5000) }) : returned()],
      reporting: () => [progress(), progress(), own.chance(0.3) ? failed('failed after progress') : returned()],
      hanging: () => [],
      stubborn: () => (own.chance(0.5) ? [] : [returned(4000)]),
      crashing: () => [own.chance(0.6) ? crashed(20) : returned()],
      acking: () => [acknowledged('ack'), returned(100)],
      nacking: () => [acknowledged('nack'), returned(100)],
      ackingThenFailing: () => [
        acknowledged('ack'),
        own.chance(0.5) ? failed('failed after its ack', 100) : crashed(100),
      ],
      deadly: () => [own.chance(0.7) ? act(50, () => Object.assign(process, { isKillDue: true })) : returned()],
    };
    const script = scripts[mood]();
    attempt.heedsAbort = mood !== 'stubborn' && own.chance(0.8);
    return script;
  }

  return { run, cancel, releaseWaiting, stop };
}

function simulatedSender(clock: Clock, random: SeededRandom): DispatcherOptions['callbacks'] {
  const sending = new Map<Delivery, AbortController>();
  return {
    isUsed: true,
    async run(delivery, { onStart }): Promise<Outcome> {
      const controller = new AbortController();
      sending.set(delivery, controller);
      onStart();
      const hangs = random.chance(0.1);
      const succeeds = !hangs && random.chance(0.7);
      await clock.sleep(hangs ? 10_000 : random.below(200), controller.signal);
      sending.delete(delivery);
      if (controller.signal.aborted) return controller.signal.reason;
      if (succeeds) return { ended: 'returned', output: '{"status":204,"answer":""}' };
      return { ended: 'raised', permanent: false, reason: 'no answer', retryAfterMs: random.below(5000) };
    },
    cancel(delivery) {
      sending.get(delivery)?.abort({ ended: 'cancelled' } satisfies Outcome);
      return false;
    },
    stop() {
      for (const controller of sending.values()) controller.abort({ ended: 'released', reason: 'stopped' });
    },
  };
}

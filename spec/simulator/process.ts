import { Dispatcher } from '../../main/tasks/dispatch/dispatcher.ts';
import { Queue, type QueueBus } from '../../main/tasks/queue.ts';
import { readDefinition } from '../../main/tasks/schedules/definition.ts';
import { Scheduler } from '../../main/tasks/schedules/scheduler.ts';
import { taskIds } from '../../main/tasks/task-ids.ts';
import type { TickFeed } from '../../main/ticker/ticker.ts';
import type { TokenStore } from '../../main/ticker/token-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { sleepOn } from '../support/manual-clock.ts';
import { simulatedSender } from './callbacks.ts';
import type { ObservedStore } from './history.ts';
import { actions, simulatedPool } from './pool.ts';
import type { SeededRandom } from './random.ts';
import { scheduleFields } from './schedules.ts';
import { turn } from './time.ts';
import type { World } from './world.ts';

/** Parts of a process that depend on where its state is kept. */
export interface Backend {
  store: ObservedStore;
  bus?: QueueBus;
  /** Starts the parts that need the queue. */
  start(): unknown;
  /** Ends the parts at a stop, after the dispatcher. Returns whether the queue is kept. */
  stop(): Promise<boolean>;
}

export interface ProcessOptions {
  world: World;
  name: string;
  /** Number of the process among the others. Its successors have the same. */
  place: number;
  random: SeededRandom;
  /** Whether the handlers module has a schedule. */
  hasModule: boolean;
}

/** One process: a queue, its dispatcher and handlers, without HTTP and threads. */
export class Process {
  /** The owner of the deliveries. */
  owner: string;
  readonly clock: Clock;
  readonly newTaskId: () => string;
  readonly options: ProcessOptions;
  isDead = false;
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
  /** Timers that were due while the process stood still. */
  #overdue: (() => void)[] = [];
  #backend: Backend | undefined;
  #dispatcher: Dispatcher | undefined;

  constructor(options: ProcessOptions) {
    this.options = options;
    this.owner = options.name;
    const timer = (delayMs: number, run: () => void) => this.#timer(delayMs, run);
    this.clock = {
      ...{ now: () => options.world.now, timer },
      sleep: (delayMs, signal) => sleepOn({ timer }, delayMs, signal),
    };
    this.newTaskId = taskIds(options.random);
  }

  get name(): string {
    return this.options.name;
  }

  /** Whether the process answers requests. */
  get isServing(): boolean {
    return this.#dispatcher !== undefined && !this.isDead && !this.isStill && !this.#isStopping;
  }

  /** Starts the parts in the order of a service. @throws {Error} if the file or the server cannot be used */
  async open(openBackend: (process: Process) => Backend | Promise<Backend>): Promise<void> {
    const { world, random } = this.options;
    const { clock, newTaskId } = this;
    const { log, setting, history } = world;
    const backend = await openBackend(this);
    this.#backend = backend;
    const { store, bus } = backend;
    history.observe(store, this);
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
    const { clock, options } = this;
    const [schedule] = options.world.setting.schedules;
    if (schedule === undefined) return;
    const definition = () =>
      readDefinition(schedule, scheduleFields(schedule, { mood: 'quick' }, false), clock.now(), []);
    await this.scheduler.start(new Map(options.hasModule ? [[schedule, definition()]] : []));
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

  /** Ends the process at once, unless it has stopped. */
  kill(): void {
    this.isDead = true;
    this.options.world.history.onDeath(this.owner);
    this.onKill?.();
  }

  /** Stops the process as SIGSTOP does. Time goes on. */
  standStill(): void {
    this.isStill = true;
  }

  /** Continues the process, whose overdue timers fire in their order. */
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
    const cancel = this.options.world.time.timer(delayMs, fire);
    return () => {
      isCancelled = true;
      cancel();
    };
  }
}

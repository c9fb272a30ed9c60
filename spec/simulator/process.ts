import { pino } from 'pino';
import { Dispatcher } from '../../main/tasks/dispatch/dispatcher.ts';
import { Queue, type QueueBus } from '../../main/tasks/queue.ts';
import { readDefinition } from '../../main/tasks/schedules/definition.ts';
import { Scheduler } from '../../main/tasks/schedules/scheduler.ts';
import { taskIds } from '../../main/tasks/task-ids.ts';
import type { HandlersManifest } from '../../workers/tasks/messages.ts';
import { simulatedSender } from './callbacks.ts';
import type { History, ObservedStore } from './history.ts';
import { simulatedPool } from './pool.ts';
import type { SeededRandom } from './random.ts';
import { scheduleFields } from './schedules.ts';
import { ProcessClock } from './time.ts';
import type { World } from './world.ts';

export const actions: HandlersManifest = new Map([['twice', { maxAttempts: 2 }]]);

export const silent = pino({ level: 'silent' });

export interface ProcessOptions {
  world: World;
  history: History;
  name: string;
  random: SeededRandom;
  /** Whether the handlers module has a schedule. */
  hasModule: boolean;
}

/** One process: a queue, its dispatcher and handlers, without HTTP and threads. */
export abstract class Process<Options extends ProcessOptions = ProcessOptions> {
  /** The owner of the deliveries. */
  owner: string;
  readonly clock: ProcessClock;
  readonly newTaskId: () => string;
  isDead = false;
  isStill = false;
  isStopping = false;
  /** Whether a handler has ended the process. */
  isKillDue = false;
  /** Times of schedules before it are missed. */
  firesFrom = Number.POSITIVE_INFINITY;
  protected dispatcher: Dispatcher | undefined;
  protected readonly options: Options;
  queue!: Queue;
  scheduler!: Scheduler;

  constructor(options: Options) {
    this.options = options;
    this.owner = options.name;
    this.clock = new ProcessClock(options.world.time);
    this.newTaskId = taskIds(options.random);
  }

  /** Whether the process answers requests. */
  get isServing(): boolean {
    return this.dispatcher !== undefined && !this.isDead && !this.isStill && !this.isStopping;
  }

  /** Ends the process at once. */
  kill(): void {
    this.isDead = true;
    this.clock.kill();
    this.options.history.onDeath(this.owner);
  }

  /** Opens the queue on a store. The dispatcher is started by the caller. */
  protected async openQueue(store: ObservedStore, bus: QueueBus | undefined, log = silent): Promise<Dispatcher> {
    const { world, random, history } = this.options;
    const { clock } = this;
    history.observe(store, this);
    const onEvent = bus === undefined ? history.onEvent.bind(history) : () => {};
    const queue = await Queue.open({ store, bus, onEvent: (event) => this.isDead || onEvent(event), clock });
    const pool = simulatedPool(this, world, history, random.fork('handlers'));
    this.queue = queue;
    this.scheduler = new Scheduler({ queue, actions, newTaskId: this.newTaskId, clock, log: silent });
    const { prefetch } = world.setting;
    const callbacks = simulatedSender(clock, random.fork('callbacks'));
    return new Dispatcher({ queue, pool, callbacks, prefetch, actions, clock, random, log });
  }

  /** Starts to fire the schedules, and stores that of the handlers module. */
  protected async startSchedules(): Promise<void> {
    const { world, hasModule } = this.options;
    const [name = ''] = world.setting.schedules;
    const definition = () => readDefinition(name, scheduleFields(name, { mood: 'quick' }, false), this.clock.now(), []);
    await this.scheduler.start(new Map(hasModule ? [[name, definition()]] : []));
    this.firesFrom = this.clock.now();
  }
}

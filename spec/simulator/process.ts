import { pino } from 'pino';
import type { TaskStore } from '../../db/task-store.ts';
import { Dispatcher } from '../../main/tasks/dispatch/dispatcher.ts';
import { Queue, type QueueBus } from '../../main/tasks/queue.ts';
import { taskIds } from '../../main/tasks/task-ids.ts';
import type { HandlersManifest } from '../../workers/tasks/messages.ts';
import type { Submission, Target } from './clients.ts';
import type { History, Journal } from './history.ts';
import { SimulatedPool } from './pool.ts';
import type { SeededRandom } from './random.ts';
import type { Setting } from './steps.ts';
import { ProcessClock, type Time } from './time.ts';

export const actions: HandlersManifest = new Map([['twice', { maxAttempts: 2 }]]);

export const silent = pino({ level: 'silent' });

export interface ProcessOptions {
  time: Time;
  random: SeededRandom;
  setting: Setting;
  journal: Journal;
  history: History;
  submissionOf: (id: string) => Submission;
  /** Factor of the durations of handlers. */
  pace?: number;
}

/** One process: a queue, its dispatcher and handlers, without HTTP and threads. */
export abstract class Process implements Target {
  readonly clock: ProcessClock;
  readonly newTaskId: () => string;
  isDead = false;
  isStill = false;
  isStopping = false;
  /** Whether a handler has ended the process. */
  isKillDue = false;
  protected dispatcher: Dispatcher | undefined;
  readonly #options: ProcessOptions;
  #queue: Queue | undefined;

  constructor(options: ProcessOptions) {
    this.#options = options;
    this.clock = new ProcessClock(options.time);
    this.newTaskId = taskIds(options.random);
  }

  get queue(): Queue {
    return this.#queue as Queue;
  }

  /** Whether the process answers requests. */
  get isServing(): boolean {
    return this.dispatcher !== undefined && !this.isDead && !this.isStill && !this.isStopping;
  }

  /** Ends the process at once. */
  kill(): void {
    this.isDead = true;
    this.clock.kill();
  }

  /** Opens the queue on a store. The dispatcher is started by the caller. */
  protected async openQueue(store: TaskStore, bus: QueueBus | undefined, log = silent): Promise<Dispatcher> {
    const { random, setting, history, submissionOf, pace } = this.#options;
    const { clock } = this;
    history.observe(store, this, bus === undefined);
    const onEvent = bus === undefined ? history.onEvent.bind(history) : () => {};
    const queue = await Queue.open({ store, bus, onEvent: (event) => this.isDead || onEvent(event), clock });
    const pool: SimulatedPool = new SimulatedPool({
      threads: setting.threads,
      clock,
      random: random.fork('handlers'),
      ...(pace && { pace }),
      subjectOf: ({ id }) => submissionOf(id),
      history,
      killProcess: () => {
        this.isKillDue = true;
      },
    });
    this.#queue = queue;
    const { prefetch } = setting;
    return new Dispatcher({ queue, pool, prefetch, actions, clock, random, log });
  }
}

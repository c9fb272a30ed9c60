import type { Checks } from '../admin/readiness.ts';
import type { Config } from '../config.ts';
import type { Engine } from '../engines/engine.ts';
import { RequestFigures } from '../figures/requests.ts';
import { ByteBudget } from '../http/byte-budget.ts';
import { addressShare, type ConnectionShares } from '../http/descriptors.ts';
import { type Listener, listen } from '../http/listener.ts';
import type { Log } from '../log.ts';
import { workerFile } from '../worker-file.ts';
import type { TaskAccess } from './access.ts';
import { createTasksApp } from './app.ts';
import { Dispatcher, unsettled } from './dispatch/dispatcher.ts';
import { WorkerPool } from './pool/worker-pool.ts';
import type { OpenQueue, Queue, UnsyncedRows } from './queue/queue.ts';
import { SubmissionThread } from './submission-thread.ts';
import { TaskEvents } from './task-events.ts';

/** Most deliveries that a thread is given at once: their rows are stored together. */
const MAX_BATCH = 32;

/** What service B had accepted and not finished when it stopped. */
export interface Unfinished {
  unfinished: number;
  /** Whether the next start takes it up. */
  kept: boolean;
}

/** Service B, running. */
export interface TasksService {
  listener: Listener;
  figures: TasksFigures;
  /** What has to hold for it to serve clients; see `admin/readiness`. */
  checks: Checks;
  /** Problems that leave it ready. */
  warnings: Checks;
  /** @param deadlines when open connections are cut, and when the tasks have to be left */
  stop(deadlines: { connections: Promise<void>; all: Promise<void> }): Promise<Unfinished>;
  /** Number of accepted tasks that are lost if the process ends now. */
  unsaved(): number;
}

/** What can be counted of service B. */
export interface TasksFigures {
  requests: RequestFigures;
  /** Bytes of request bodies, and of responses that clients have not read yet. */
  bodies: Pick<ByteBudget, 'used' | 'limit'>;
  responses: Pick<ByteBudget, 'used' | 'limit'>;
  queue: Pick<Queue, 'counts' | 'oldest'>;
  /** Health of what the queue is stored in. */
  storage: Pick<OpenQueue, 'fileProblem' | 'unsynced' | 'evicted'>;
  bounds: Pick<Config, 'queueMaxLength' | 'queueMaxBytes'>;
  dispatcher: Pick<Dispatcher, 'metrics'>;
  pool: Pick<WorkerPool, 'threads' | 'busy' | 'runs'>;
  events: Pick<TaskEvents, 'followers'>;
}

/** Starts service B, without access control if `access` is undefined. @throws {Error} when a part of it cannot start. */
export async function startTasks(
  config: Config,
  engine: Engine,
  shares: ConnectionShares,
  log: Log,
  access?: TaskAccess,
): Promise<TasksService> {
  const events = new TaskEvents();
  const { tasks } = engine;
  const { queue, close: closeQueue, ...storage } = await engine.openQueue(events.note);
  const { fileProblem, unsynced, evicted = () => 0 } = storage;
  const requests = new RequestFigures();
  const bodies = new ByteBudget(config.bodyBudgetBytes);
  const responses = new ByteBudget(config.responseBudgetBytes);
  const submissions = new SubmissionThread({ memoryMb: parserMemoryMb(config), log });

  const writeLock = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  let retention: ReturnType<Engine['startRetention']>;

  const release = async () => {
    await retention?.stop();
    return closeQueue();
  };

  const pool = await startPool(config, engine.threadData, log, writeLock).catch(async (error) => {
    await release();
    throw error;
  });
  const isStored = async (id: string) => (await tasks.find(id)) !== undefined;
  const dispatcher = new Dispatcher({ queue, pool, prefetch: config.taskPrefetch, isStored, log });

  try {
    const app = await createTasksApp({
      requests,
      queue,
      tasks,
      events,
      bodies: { limit: config.bodyLimit, budget: bodies },
      submissions,
      responses,
      access,
      corsOrigins: config.corsOrigins,
      trustProxy: config.trustProxy,
      log,
    });
    const listener = await listen(app.callback(), {
      host: config.host,
      port: config.tasksPort,
      allowedHosts: config.allowedHosts,
      reusePort: config.reusePort,
      maxConnections: shares.tasks,
      addressShare: addressShare(config.trustProxy),
    });
    dispatcher.start();
    retention = engine.startRetention(writeLock);
    let kept = queue.durable;
    return {
      listener,
      figures: { requests, bodies, responses, queue, storage, bounds: config, dispatcher, pool, events },
      checks: {
        task_threads: () => (pool.serving ? undefined : 'the task threads do not start'),
        task_queue: () => dispatcher.paused,
        ...(fileProblem && { queue_file: fileProblem }),
      },
      warnings: {
        dead_letters: () => lostLetters(evicted()),
        ...(unsynced && { row_sync: () => unsyncedRows(unsynced()) }),
      },
      async stop({ connections, all: deadline }) {
        events.close();
        void retention?.stop();
        await listener.close(connections);
        await submissions.stop();
        // What the memory driver holds is safest when it is done.
        if (!queue.durable) await dispatcher.drain(deadline);
        await dispatcher.stop(deadline);
        const unfinished = unsettled(queue);
        kept = await release();
        return { unfinished, kept };
      },
      unsaved: () => (kept ? 0 : unsettled(queue)),
    };
  } catch (error) {
    await submissions.stop();
    await dispatcher.stop(Promise.resolve());
    await release();
    throw error;
  }
}

function lostLetters(evicted: number): string | undefined {
  return evicted === 0 ? undefined : `${evicted} dead letters were evicted because of their bound`;
}

function unsyncedRows({ tasks, reason }: UnsyncedRows): string | undefined {
  return tasks === 0 ? undefined : `${tasks} completed tasks run again at the next start: ${reason}`;
}

/**
 * Heap limit of the thread that parses bodies. A value of many small arrays takes 40 times the memory of its text; the limit is far
 * above that, because V8 ends the whole process if a thread reaches its limit at the wrong moment.
 */
function parserMemoryMb({ bodyLimit }: Config): number {
  return 128 + Math.ceil((128 * bodyLimit) / 2 ** 20);
}

/**
 * Starts the threads that work tasks off and store their rows.
 *
 * @param threadData where the rows are; see `Engine`
 * @param writeLock their turns to write, where others take part in them
 * @throws {Error} when they do not start
 */
export function startPool(
  config: Config,
  threadData: object,
  log: Log,
  writeLock?: SharedArrayBuffer,
): Promise<WorkerPool> {
  const { taskConcurrency: threads, taskTimeoutMs, taskMemoryMb } = config;
  return WorkerPool.start({
    file: workerFile('task'),
    threads,
    maxBatch: MAX_BATCH,
    timeoutMs: taskTimeoutMs,
    memoryMb: taskMemoryMb,
    workerData: threadData,
    ...(writeLock && { writeLock }),
    log,
  });
}

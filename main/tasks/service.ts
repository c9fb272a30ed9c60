import type { TaskStoreLocation } from '../../workers/messages.ts';
import type { Awaitable } from '../awaitable.ts';
import type { Config } from '../config.ts';
import type { Checks } from '../health-check.ts';
import { ByteBudget } from '../http/byte-budget.ts';
import { addressShare, type ConnectionShares } from '../http/descriptor-shares.ts';
import { type Listener, listen } from '../http/listener.ts';
import type { Log } from '../log.ts';
import { RequestMetrics } from '../metrics/request-metrics.ts';
import { workerFile } from '../worker-file.ts';
import { Dispatcher, unsettled } from './dispatch/dispatcher.ts';
import type { TaskAccess } from './http/access.ts';
import { createTasksApp, type TaskStore } from './http/app.ts';
import { SubmissionThread } from './http/submission-thread.ts';
import { WorkerPool } from './pool/worker-pool.ts';
import type { OpenQueue, Queue, TaskEvent, UnsyncedRows } from './queue/queue.ts';
import { TaskEvents } from './task-events.ts';

/** Maximum number of deliveries in a batch. A thread stores the rows of a batch in one transaction. */
const MAX_BATCH = 32;

/** Number of accepted tasks that were unfinished when the task queue stopped, and whether the queue keeps them for the next start. */
export interface Unfinished {
  unfinished: number;
  kept: boolean;
}

/** The running service B, which accepts and processes tasks. */
export interface TasksService {
  listener: Listener;
  metrics: TasksMetrics;
  /** Readiness checks by name. The service is not ready while one of them returns a problem. */
  checks: Checks;
  /** Checks of problems that are reported, but leave the service ready. */
  warnings: Checks;
  /** Stops the service. @param deadlines resolve when open connections are closed, and when running tasks are terminated */
  stop(deadlines: { connections: Promise<void>; all: Promise<void> }): Promise<Unfinished>;
  /** Number of accepted tasks that are lost if the process ends now. */
  unsaved(): number;
}

/** Objects from which the metrics of service B are read. */
export interface TasksMetrics {
  requests: RequestMetrics;
  /** Used and allowed bytes of request bodies that are not parsed yet. */
  bodies: ByteBudget;
  /** Used and allowed bytes of responses that clients have not read yet. */
  responses: ByteBudget;
  queue: Pick<Queue, 'counts' | 'oldest'>;
  /** Functions that report problems of the queue's storage. */
  storage: Pick<OpenQueue, 'fileProblem' | 'unsynced' | 'evicted'>;
  bounds: Pick<Config, 'queueMaxLength' | 'queueMaxBytes'>;
  dispatcher: Pick<Dispatcher, 'metrics'>;
  pool: Pick<WorkerPool, 'threads' | 'busy' | 'durations'>;
  events: Pick<TaskEvents, 'subscribers'>;
}

/** Storage of service B, in local files or on servers that several nodes share. */
export interface TasksBackend {
  tasks: TaskStore;
  /** Opens the task queue. @param onEvent called at every state change of a task */
  openQueue(onEvent: (event: TaskEvent) => void): Awaitable<OpenQueue>;
  taskStoreLocation: TaskStoreLocation;
  /** Starts deleting old task rows. Undefined if no retention limit is set. @param writeLock write lock of the worker threads */
  startRetention(writeLock: SharedArrayBuffer): { stop(): Promise<void> } | undefined;
}

/** Starts service B. Without `access`, requests need no token. @throws {Error} if the queue, a thread or the server cannot start */
export async function startTasks(
  config: Config,
  backend: TasksBackend,
  shares: ConnectionShares,
  log: Log,
  access?: TaskAccess,
): Promise<TasksService> {
  await using startedParts = new AsyncDisposableStack();
  const events = new TaskEvents();
  const { tasks } = backend;
  const { queue, close: closeQueue, ...storage } = await backend.openQueue(events.record);
  startedParts.defer(() => closeQueue().then(() => {}));
  const { fileProblem, unsynced, evicted = () => 0 } = storage;
  const writeLock = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const pool = await startPool(config, backend.taskStoreLocation, log, writeLock);
  const isStored = async (id: string) => (await tasks.find(id)) !== undefined;
  const dispatcher = new Dispatcher({ queue, pool, prefetch: config.taskPrefetch, isStored, log });
  startedParts.defer(() => dispatcher.stop(Promise.resolve()));
  const submissions = new SubmissionThread({ memoryMb: parserMemoryMb(config), log });
  startedParts.defer(() => submissions.stop());

  const requests = new RequestMetrics();
  const bodies = new ByteBudget(config.bodyBudgetBytes);
  const responses = new ByteBudget(config.responseBudgetBytes);
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
  const retention = backend.startRetention(writeLock);
  startedParts.move();
  let kept = queue.durable;
  return {
    listener,
    metrics: { requests, bodies, responses, queue, storage, bounds: config, dispatcher, pool, events },
    checks: {
      task_threads: () => (pool.serving ? undefined : 'the task threads do not start'),
      task_queue: () => dispatcher.paused,
      ...(fileProblem && { queue_file: fileProblem }),
    },
    warnings: {
      dead_letters: () =>
        evicted() === 0 ? undefined : `${evicted()} dead letters were evicted because of their bound`,
      ...(unsynced && { row_sync: () => unsyncedRows(unsynced()) }),
    },
    async stop({ connections, all: deadline }) {
      events.close();
      const retentionStopped = retention?.stop();
      await listener.close(connections);
      await submissions.stop();
      // Processes the remaining tasks of a memory queue, because they are lost if its snapshot cannot be written.
      if (!queue.durable) await dispatcher.drain(deadline);
      await dispatcher.stop(deadline);
      const unfinished = unsettled(queue);
      await retentionStopped;
      kept = await closeQueue();
      return { unfinished, kept };
    },
    unsaved: () => (kept ? 0 : unsettled(queue)),
  };
}

function unsyncedRows({ tasks, reason }: UnsyncedRows): string | undefined {
  return tasks === 0 ? undefined : `${tasks} completed tasks run again at the next start: ${reason}`;
}

/**
 * Returns the heap limit in MB of the thread that parses bodies. A body of many small arrays takes 40 times its size in memory. The
 * limit is far above that, because V8 sometimes aborts the whole process when a thread reaches its limit.
 */
function parserMemoryMb({ bodyLimit }: Config): number {
  return 128 + Math.ceil((128 * bodyLimit) / 2 ** 20);
}

/** Starts the worker threads, which process tasks and store their rows. @throws {Error} if the threads do not start */
export function startPool(
  config: Config,
  location: TaskStoreLocation,
  log: Log,
  writeLock?: SharedArrayBuffer,
): Promise<WorkerPool> {
  return WorkerPool.start({
    file: workerFile('task-worker'),
    threads: config.taskConcurrency,
    maxBatch: MAX_BATCH,
    timeoutMs: config.taskTimeoutMs,
    memoryMb: config.taskMemoryMb,
    workerData: location,
    ...(writeLock && { writeLock }),
    log,
  });
}

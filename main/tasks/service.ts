import { join } from 'node:path';
import { Database } from '../../db/database.ts';
import { Tasks } from '../../db/tasks.ts';
import type { Config } from '../config.ts';
import { RequestFigures } from '../figures/requests.ts';
import { openFilesLimit, shareDescriptors } from '../http/descriptors.ts';
import { type Listener, listen } from '../http/listener.ts';
import type { Log } from '../log.ts';
import { workerFile } from '../worker-file.ts';
import { createTasksApp } from './app.ts';
import { Dispatcher, unsettled } from './dispatcher.ts';
import type { QueueDriver } from './queue/driver.ts';
import { openQueue } from './queue/open.ts';
import { RetentionThread } from './retention-thread.ts';
import { TaskEvents } from './task-events.ts';
import { WorkerPool } from './worker-pool.ts';

/** Waiting for a lock holds up every client, so it is short. */
const BUSY_TIMEOUT_MS = 50;

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
  checks: Readonly<Record<string, () => string | undefined>>;
  /** @param deadlines when open connections are cut, and when the tasks have to be left */
  stop(deadlines: { connections: Promise<void>; all: Promise<void> }): Promise<Unfinished>;
}

/** What can be counted of service B. */
export interface TasksFigures {
  requests: RequestFigures;
  queue: Pick<QueueDriver, 'counts' | 'oldest'>;
  bounds: Pick<Config, 'queueMaxLength' | 'queueMaxBytes'>;
  dispatcher: Pick<Dispatcher, 'figures' | 'busy'>;
  pool: Pick<WorkerPool, 'threads' | 'runs'>;
  events: Pick<TaskEvents, 'followers'>;
}

/** Starts service B on databases that are migrated. @throws {Error} when a part of it cannot start. */
export async function startTasks(config: Config, log: Log): Promise<TasksService> {
  const events = new TaskEvents();
  const { queue, close: closeQueue } = openQueue(config, log, events.note);
  const database = new Database(join(config.dataDir, 'tasks.db'), { busyTimeoutMs: BUSY_TIMEOUT_MS });
  const tasks = new Tasks(database);
  const requests = new RequestFigures();
  const app = createTasksApp({ requests, queue, tasks, events, bodyLimit: config.bodyLimit, log });

  const writeLock = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  let retention: RetentionThread | undefined;

  const release = async () => {
    await retention?.stop();
    database.close();
    return closeQueue();
  };

  const pool = await startPool(config, log, writeLock).catch(async (error) => {
    await release();
    throw error;
  });
  const isStored = (id: string) => tasks.find(id) !== undefined;
  const dispatcher = new Dispatcher({ queue, pool, prefetch: config.taskPrefetch, isStored, log });

  try {
    const listener = await listen(app.callback(), {
      host: config.host,
      port: config.tasksPort,
      maxConnections: shareDescriptors(openFilesLimit()).tasks,
    });
    dispatcher.start();
    retention = startRetention(config, log, writeLock);
    return {
      listener,
      figures: { requests, queue, bounds: config, dispatcher, pool, events },
      checks: {
        tasks_database: () => database.probe(),
        task_threads: () => (pool.serving ? undefined : 'the task threads do not start'),
        task_queue: () => dispatcher.paused,
      },
      async stop({ connections, all: deadline }) {
        events.close();
        void retention?.stop();
        await listener.close(connections);
        // What the memory driver holds is safest when it is done.
        if (!queue.durable) await dispatcher.drain(deadline);
        await dispatcher.stop(deadline);
        const unfinished = unsettled(queue);
        return { unfinished, kept: await release() };
      },
    };
  } catch (error) {
    await dispatcher.stop(Promise.resolve());
    await release();
    throw error;
  }
}

/** Starts the thread that deletes old rows, where a limit is set. */
function startRetention(config: Config, log: Log, writeLock: SharedArrayBuffer): RetentionThread | undefined {
  const { taskRetentionRows: rows, taskRetentionDays: days, dataDir } = config;
  return rows > 0 || days > 0 ? new RetentionThread({ dataDir, rows, days, writeLock, log }) : undefined;
}

/**
 * Starts the threads that work tasks off and store their rows.
 *
 * @param writeLock their turns to write, where others take part in them
 * @throws {Error} when they do not start
 */
export function startPool(config: Config, log: Log, writeLock?: SharedArrayBuffer): Promise<WorkerPool> {
  const { taskConcurrency: threads, taskTimeoutMs, taskMemoryMb, dataDir } = config;
  return WorkerPool.start({
    file: workerFile('task'),
    threads,
    maxBatch: MAX_BATCH,
    timeoutMs: taskTimeoutMs,
    memoryMb: taskMemoryMb,
    workerData: { dataDir },
    ...(writeLock && { writeLock }),
    log,
  });
}

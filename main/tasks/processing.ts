import type { HandlersManifest } from '../../workers/handlers-manifest.ts';
import type { TaskStoreLocation } from '../../workers/messages.ts';
import type { Awaitable } from '../awaitable.ts';
import type { Config } from '../config.ts';
import type { Log } from '../log.ts';
import type { Checks } from '../readiness-check.ts';
import { Dispatcher, unsettled } from './dispatch/dispatcher.ts';
import { QueueHistory } from './monitor/queue-history.ts';
import { QueueMonitor } from './monitor/queue-monitor.ts';
import { startPool } from './pool/start-pool.ts';
import type { WorkerPool } from './pool/worker-pool.ts';
import type { OpenQueue, Queue, TaskEvent, UnsyncedRows } from './queue/queue.ts';
import { TaskEvents } from './task-events.ts';
import type { TaskStore } from './task-store.ts';

/** Storage of the task service: local files, or servers shared by several nodes. */
export interface TasksBackend {
  tasks: TaskStore;
  openQueue(onEvent: (event: TaskEvent) => void): Awaitable<OpenQueue>;
  taskStoreLocation: TaskStoreLocation;
  /** Starts to delete old task rows. Returns undefined if no retention limit is configured. */
  startRetention(writeLock: SharedArrayBuffer): { stop(): Promise<void> } | undefined;
}

/** Number of tasks left unfinished at shutdown, and whether the queue keeps them for the next start. */
export interface Unfinished {
  unfinished: number;
  kept: boolean;
}

/** Processing of tasks, without HTTP. */
export interface Processing {
  queue: Queue;
  storage: Pick<OpenQueue, 'fileProblem' | 'unsynced' | 'evicted'>;
  pool: WorkerPool;
  dispatcher: Dispatcher;
  monitor: QueueMonitor;
  events: TaskEvents;
  checks: Checks;
  warnings: Checks;
  /** Starts to process tasks and to delete old rows. */
  start(): void;
  /** @param abort deadline after which handlers are aborted @param deadline of the stop, after which tasks are terminated */
  stop(abort: Promise<void>, deadline: Promise<void>): Promise<Unfinished>;
  /** Number of accepted tasks that would be lost if the process ended now. */
  unsaved(): number;
}

/**
 * Opens the queue, and starts the worker pool. Tasks are processed after `start`.
 *
 * @param startedParts gets what must be stopped if the start of the service fails later
 * @throws {Error} if the queue cannot be opened or a worker thread cannot start
 */
export async function openProcessing(
  startedParts: AsyncDisposableStack,
  { tasks: settings, queue: bounds }: Pick<Config, 'tasks' | 'queue'>,
  backend: TasksBackend,
  actions: HandlersManifest,
  log: Log,
): Promise<Processing> {
  const { prefetch } = settings;
  const [events, history] = [new TaskEvents(), new QueueHistory()];
  const { queue, close, ...storage } = await backend.openQueue((event) => {
    history.record(event);
    events.record(event);
  });
  startedParts.defer(() => close().then(() => {}));
  followPauses(queue, events, log);
  const writeLock = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const pool = await startPool(settings, backend.taskStoreLocation, log, {
    writeLock,
    actions,
    onProgress: (delivery, progress) => queue.reportProgress(delivery, progress),
  });
  const isStored = async (id: string) => (await backend.tasks.find(id)) !== undefined;
  const dispatcher = new Dispatcher({ queue, pool, prefetch, actions, isStored, log });
  startedParts.defer(() => dispatcher.stop(Promise.resolve()));
  const checks = {
    task_threads: () => (pool.serving ? undefined : 'the task threads do not start'),
    task_queue: () => dispatcher.writeFailure,
    ...(storage.fileProblem && { queue_file: storage.fileProblem }),
  };
  const problems = [...Object.values(checks), ...(storage.serverProblem ? [storage.serverProblem] : [])];
  const monitor = new QueueMonitor({ history, queue, pool, dispatcher, bounds, prefetch, problems });
  startedParts.defer(() => monitor.stop());
  let retention: { stop(): Promise<void> } | undefined;
  let kept = queue.durable;
  return {
    ...{ queue, storage, pool, dispatcher, monitor, events, checks, warnings: warningsOf(queue, storage) },
    start() {
      dispatcher.start();
      retention = backend.startRetention(writeLock);
    },
    async stop(abort, deadline) {
      monitor.stop();
      const retentionStopped = retention?.stop();
      // Drains an in-memory queue first, because its tasks would be lost if the snapshot could not be written. Built-in
      // handlers have no abort signal, so they run until the deadline.
      if (!queue.durable) await dispatcher.drain(deadline, settings.handlers === undefined ? deadline : abort);
      await dispatcher.stop(deadline);
      const unfinished = unsettled(queue);
      await retentionStopped;
      kept = await close();
      return { unfinished, kept };
    },
    unsaved: () => (kept ? 0 : unsettled(queue)),
  };
}

function followPauses(queue: Queue, events: TaskEvents, log: Log): void {
  const note = (isPaused: boolean) =>
    isPaused
      ? log.warn('the queue is paused: no task is processed until it is resumed')
      : log.info('the queue is resumed');
  if (queue.paused) note(true);
  queue.onPauseChange((isPaused) => {
    note(isPaused);
    events.record({ event: isPaused ? 'paused' : 'resumed', at: Date.now() });
  });
}

function warningsOf(queue: Queue, { unsynced, evicted = () => 0 }: Processing['storage']): Checks {
  return {
    queue_paused: () => (queue.paused ? 'no task is processed until POST /queue/resume' : undefined),
    dead_letters: () => (evicted() === 0 ? undefined : `${evicted()} dead letters were evicted because of their bound`),
    ...(unsynced && { row_sync: () => unsyncedRows(unsynced()) }),
  };
}

function unsyncedRows({ tasks, reason }: UnsyncedRows): string | undefined {
  return tasks === 0 ? undefined : `${tasks} completed tasks run again at the next start: ${reason}`;
}

import type { HandlersManifest, SubmissionRules } from '../../workers/handlers-manifest.ts';
import type { TaskStoreLocation } from '../../workers/messages.ts';
import type { MainThreadCheck } from '../../workers/parse-submission.ts';
import type { Awaitable } from '../awaitable.ts';
import type { Config } from '../config.ts';
import { ByteBudget } from '../http/byte-budget.ts';
import { addressShare, type ConnectionShares } from '../http/descriptor-shares.ts';
import { type Listener, listen } from '../http/listener.ts';
import type { Log } from '../log.ts';
import { RequestMetrics } from '../metrics/request-metrics.ts';
import type { Checks } from '../readiness-check.ts';
import { Dispatcher, unsettled } from './dispatch/dispatcher.ts';
import type { TaskAccess } from './http/access.ts';
import { createTasksApp, type TaskStore } from './http/app.ts';
import { SubmissionThread } from './http/submission-thread.ts';
import { QueueHistory } from './monitor/queue-history.ts';
import { QueueMonitor } from './monitor/queue-monitor.ts';
import { startPool } from './pool/start-pool.ts';
import type { ProgressListener, WorkerPool } from './pool/worker-pool.ts';
import type { OpenQueue, Queue, QueueBounds, TaskEvent, UnsyncedRows } from './queue/queue.ts';
import { TaskEvents } from './task-events.ts';

/** Number of tasks left unfinished at shutdown, and whether the queue keeps them for the next start. */
export interface Unfinished {
  unfinished: number;
  kept: boolean;
}

/** Deadlines for stopping the task service. Each promise resolves when its deadline is reached. */
export interface StopDeadlines {
  /** Deadline after which open connections are closed. */
  connections: Promise<void>;
  /** Deadline after which running handlers are aborted. With a durable queue, handlers are aborted at once. */
  abort: Promise<void>;
  /** Deadline of the whole stop, after which running tasks are terminated. */
  all: Promise<void>;
}

export interface TasksService {
  listener: Listener;
  rules: SubmissionRules;
  metrics: TasksMetrics;
  /** Readiness checks by name. While a check returns a problem, the service is not ready. */
  checks: Checks;
  /** Checks by name. A failing check is reported as a warning, but the service stays ready. */
  warnings: Checks;
  stop(deadlines: StopDeadlines): Promise<Unfinished>;
  /** Number of accepted tasks that would be lost if the process ended now. */
  unsaved(): number;
}

export interface TasksMetrics {
  requests: RequestMetrics;
  bodies: ByteBudget;
  responses: ByteBudget;
  queue: Pick<Queue, 'counts' | 'oldest' | 'paused'>;
  storage: Pick<OpenQueue, 'fileProblem' | 'unsynced' | 'evicted'>;
  bounds: Pick<QueueBounds, 'maxLength' | 'maxBytes'>;
  dispatcher: Pick<Dispatcher, 'metrics'>;
  pool: Pick<WorkerPool, 'threads' | 'busy' | 'durations'>;
  events: Pick<TaskEvents, 'subscribers'>;
}

/** Storage of the task service: local files, or servers shared by several nodes. */
export interface TasksBackend {
  tasks: TaskStore;
  openQueue(onEvent: (event: TaskEvent) => void): Awaitable<OpenQueue>;
  taskStoreLocation: TaskStoreLocation;
  /** Starts to delete old task rows. Returns undefined if no retention limit is configured. */
  startRetention(writeLock: SharedArrayBuffer): { stop(): Promise<void> } | undefined;
}

export interface TasksParts {
  /** If undefined, requests need no token. */
  access?: TaskAccess | undefined;
  actions?: HandlersManifest;
}

/** Starts the task service. @throws {Error} if the queue, a worker thread or the HTTP server cannot start */
export async function startTasks(
  { http, tasks: settings, queue: bounds }: Pick<Config, 'http' | 'tasks' | 'queue'>,
  backend: TasksBackend,
  shares: ConnectionShares,
  log: Log,
  { access, actions = new Map() }: TasksParts = {},
): Promise<TasksService> {
  await using startedParts = new AsyncDisposableStack();
  const events = new TaskEvents();
  const { tasks } = backend;
  const history = new QueueHistory();
  const onEvent = (event: TaskEvent) => {
    history.record(event);
    events.record(event);
  };
  const { queue, close: closeQueue, ...storage } = await backend.openQueue(onEvent);
  startedParts.defer(() => closeQueue().then(() => {}));
  const { fileProblem, serverProblem, unsynced, evicted = () => 0 } = storage;
  followPauses(queue, events, log);
  const writeLock = new SharedArrayBuffer(Int32Array.BYTES_PER_ELEMENT);
  const onProgress: ProgressListener = (delivery, progress) => queue.reportProgress(delivery, progress);
  const pool = await startPool(settings, backend.taskStoreLocation, log, { writeLock, actions, onProgress });
  const isStored = async (id: string) => (await tasks.find(id)) !== undefined;
  const dispatcher = new Dispatcher({ queue, pool, prefetch: settings.prefetch, actions, isStored, log });
  startedParts.defer(() => dispatcher.stop(Promise.resolve()));
  const problems = {
    task_threads: () => (pool.serving ? undefined : 'the task threads do not start'),
    task_queue: () => dispatcher.writeFailure,
    ...(fileProblem && { queue_file: fileProblem }),
  };
  const monitor = new QueueMonitor({
    history,
    queue,
    pool,
    dispatcher,
    bounds,
    prefetch: settings.prefetch,
    problems: [...Object.values(problems), ...(serverProblem ? [serverProblem] : [])],
  });
  startedParts.defer(() => monitor.stop());
  const rules = { actions, rejectUnknown: settings.unknownActions === 'reject' };
  const check = await compileRules(rules);
  const submissions = new SubmissionThread({
    memoryMb: parserMemoryMb(settings.bodyLimit),
    rules: check && rules,
    log,
  });
  startedParts.defer(() => submissions.stop());

  const requests = new RequestMetrics();
  const bodies = new ByteBudget(settings.bodyBudgetBytes);
  const responses = new ByteBudget(settings.responseBudgetBytes);
  const app = await createTasksApp({
    requests,
    queue,
    tasks,
    events,
    monitor,
    bodies: { limit: settings.bodyLimit, budget: bodies },
    submissions,
    check,
    rules,
    responses,
    access,
    corsOrigins: http.corsOrigins,
    trustProxy: http.trustProxy,
    log,
  });
  const listener = await listen(app.callback(), {
    host: http.host,
    port: settings.port,
    allowedHosts: http.allowedHosts,
    reusePort: http.reusePort,
    maxConnections: shares.tasks,
    addressShare: addressShare(http.trustProxy),
  });
  dispatcher.start();
  const retention = backend.startRetention(writeLock);
  startedParts.move();
  let kept = queue.durable;
  return {
    listener,
    rules,
    metrics: { requests, bodies, responses, queue, storage, bounds, dispatcher, pool, events },
    checks: problems,
    warnings: {
      queue_paused: () => (queue.paused ? 'no task is processed until POST /queue/resume' : undefined),
      dead_letters: () =>
        evicted() === 0 ? undefined : `${evicted()} dead letters were evicted because of their bound`,
      ...(unsynced && { row_sync: () => unsyncedRows(unsynced()) }),
    },
    async stop({ connections, abort, all: deadline }) {
      events.close();
      monitor.stop();
      const retentionStopped = retention?.stop();
      await listener.close(connections);
      await submissions.stop();
      // Drains an in-memory queue first, because its tasks would be lost if the snapshot could not be written. Built-in
      // handlers have no abort signal, so they run until the deadline.
      if (!queue.durable) await dispatcher.drain(deadline, settings.handlers === undefined ? deadline : abort);
      await dispatcher.stop(deadline);
      const unfinished = unsettled(queue);
      await retentionStopped;
      kept = await closeQueue();
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

function unsyncedRows({ tasks, reason }: UnsyncedRows): string | undefined {
  return tasks === 0 ? undefined : `${tasks} completed tasks run again at the next start: ${reason}`;
}

async function compileRules(rules: SubmissionRules): Promise<MainThreadCheck | undefined> {
  const hasSchema = [...rules.actions.values()].some(({ schema }) => schema !== undefined);
  if (!hasSchema && !rules.rejectUnknown) return undefined;
  // Imported lazily, because most installations do not check submissions.
  const { mainThreadCheck } = await import('../../workers/submission-check.ts');
  return mainThreadCheck(rules);
}

// Parsing needs up to 40 times the size of a body. The limit is far higher, because V8 sometimes aborts the whole
// process when a thread reaches its heap limit.
function parserMemoryMb(bodyLimit: number): number {
  return 128 + Math.ceil((128 * bodyLimit) / 2 ** 20);
}

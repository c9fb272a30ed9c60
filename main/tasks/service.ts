import type { HandlersManifest, SubmissionRules } from '../../workers/handlers-manifest.ts';
import type { MainThreadCheck } from '../../workers/parse-submission.ts';
import type { Config } from '../config.ts';
import { ByteBudget } from '../http/byte-budget.ts';
import { addressShare, type ConnectionShares } from '../http/descriptor-shares.ts';
import { type Listener, listen } from '../http/listener.ts';
import type { Log } from '../log.ts';
import { RequestMetrics } from '../metrics/request-metrics.ts';
import type { Checks } from '../readiness-check.ts';
import type { Dispatcher } from './dispatch/dispatcher.ts';
import type { TaskAccess } from './http/access.ts';
import { createTasksApp } from './http/app.ts';
import { SubmissionThread } from './http/submission-thread.ts';
import type { WorkerPool } from './pool/worker-pool.ts';
import { openProcessing, type Processing, type TasksBackend, type Unfinished } from './processing.ts';
import type { Queue, QueueBounds } from './queue/queue.ts';
import type { TaskEvents } from './task-events.ts';

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
  storage: Processing['storage'];
  bounds: Pick<QueueBounds, 'maxLength' | 'maxBytes'>;
  dispatcher: Pick<Dispatcher, 'metrics'>;
  pool: Pick<WorkerPool, 'threads' | 'busy' | 'durations'>;
  events: Pick<TaskEvents, 'subscribers'>;
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
  const processing = await openProcessing(startedParts, { tasks: settings, queue: bounds }, backend, actions, log);
  const { queue, storage, dispatcher, pool, monitor, events, checks, warnings } = processing;
  const rules = { actions, rejectUnknown: settings.unknownActions === 'reject' };
  const check = await compileRules(rules);
  const memoryMb = parserMemoryMb(settings.bodyLimit);
  const submissions = new SubmissionThread({ memoryMb, rules: check && rules, log });
  startedParts.defer(() => submissions.stop());
  const requests = new RequestMetrics();
  const bodies = new ByteBudget(settings.bodyBudgetBytes);
  const responses = new ByteBudget(settings.responseBudgetBytes);
  const app = await createTasksApp({
    ...{ requests, queue, tasks: backend.tasks, events, monitor, submissions, check, rules, responses, access, log },
    bodies: { limit: settings.bodyLimit, budget: bodies },
    corsOrigins: http.corsOrigins,
    trustProxy: http.trustProxy,
  });
  const listener = await listen(app.callback(), {
    host: http.host,
    port: settings.port,
    allowedHosts: http.allowedHosts,
    reusePort: http.reusePort,
    maxConnections: shares.tasks,
    addressShare: addressShare(http.trustProxy),
  });
  processing.start();
  startedParts.move();
  return {
    ...{ listener, rules, checks, warnings, unsaved: processing.unsaved },
    metrics: { requests, bodies, responses, queue, storage, bounds, dispatcher, pool, events },
    async stop({ connections, abort, all }) {
      events.close();
      await listener.close(connections);
      await submissions.stop();
      return processing.stop(abort, all);
    },
  };
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

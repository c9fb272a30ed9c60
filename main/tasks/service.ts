import { HISTORIES, type QueueCounts, type TaskStore, unfinished } from '../../db/task-store.ts';
import type { Clock, Random } from '../../workers/shared/clock.ts';
import type { ModuleSources } from '../../workers/shared/user-module.ts';
import { DEFERRED, type MainThreadCheck } from '../../workers/submissions/parse-submission.ts';
import type { HandlersManifest, SubmissionRules } from '../../workers/tasks/messages.ts';
import type { Config } from '../config.ts';
import type { ConnectionShares } from '../http/connection-limiter.ts';
import { listen } from '../http/listener.ts';
import { localFetch } from '../http/local-fetch.ts';
import type { Checks } from '../http/readiness.ts';
import { ByteBudget } from '../http/request-body.ts';
import type { Log } from '../log/log.ts';
import { RequestMetrics } from '../metrics/request-metrics.ts';
import { CallbackSender } from './callbacks/callback-sender.ts';
import { Dispatcher } from './dispatch/dispatcher.ts';
import type { TaskAccess } from './http/access.ts';
import { createTasksApp } from './http/app.ts';
import { taskIds } from './http/prepare-submission.ts';
import { SubmissionThread } from './http/submission-thread.ts';
import { ownLimits, storeOwnLimits } from './limits.ts';
import { ThreadPool } from './pool/thread-pool.ts';
import { Queue, type QueueBus } from './queue.ts';
import { createQueueMonitor } from './queue-monitor.ts';
import { type ModuleSchedules, Scheduler } from './schedules/scheduler.ts';
import { TaskEvents } from './task-events.ts';

/** Storage of the task service: a local file, or a database that several nodes share. */
export interface TasksBackend {
  store: TaskStore;
  bus?: QueueBus | undefined;
  /** Starts to checkpoint the log and to delete old rows, as far as they need it. */
  startMaintenance(): { stop(): Promise<void> };
}

/** Number of tasks left unfinished at shutdown, and whether the queue keeps them for the next start. */
export interface Unfinished {
  unfinished: number;
  kept: boolean;
}

/** Deadlines for stopping the task service. Each promise resolves when its deadline is reached. */
export interface StopDeadlines {
  connections: Promise<void>;
  /** Deadline after which running handlers are aborted. With a durable queue, handlers are aborted at once. */
  abort: Promise<void>;
  /** Deadline of the whole stop, after which running tasks are ended. */
  all: Promise<void>;
}

export type TasksService = Awaited<ReturnType<typeof startTasks>>;

/** Handlers module that is loaded again when it changes. */
export interface WatchedModule {
  /** Files from which threads load the module at first. */
  sources: ModuleSources;
  problem?: string | undefined;
}

export interface TasksParts {
  /** If undefined, requests need no token. */
  access?: TaskAccess | undefined;
  actions?: HandlersManifest;
  schedules?: ModuleSchedules;
  watched?: WatchedModule | undefined;
  clock: Clock;
  random: Random;
}

/** Starts the task service. @throws {Error} if the queue, a worker thread or the HTTP server cannot start */
export async function startTasks(
  { http, tasks: settings, queue: bounds }: Pick<Config, 'http' | 'tasks' | 'queue'>,
  { store, bus, startMaintenance }: TasksBackend,
  shares: ConnectionShares,
  log: Log,
  { access, actions: first = new Map(), schedules, watched, clock, random }: TasksParts,
) {
  await using startedParts = new AsyncDisposableStack();
  /** Changed in place by a reload, because all parts share it. */
  const actions = new Map(first);
  const moduleProblem = () => watched?.problem;
  const events = new TaskEvents({ clock, random, follow: (isFollowing) => bus?.follow(isFollowing) });
  const queue = await Queue.open({ store, bus, onEvent: events.record, clock });
  startedParts.defer(() => queue.close());
  reportPauses(queue, events, clock, log);
  const pool = await ThreadPool.start(settings, { actions, sources: watched?.sources, clock, log });
  const { prefetch, callbackHosts, callbackSecrets: secrets } = settings;
  const find = (id: string) => queue.find(id);
  const callbacks = new CallbackSender({ hosts: callbackHosts, secrets, find, clock, random });
  const dispatcher = new Dispatcher({ queue, pool, callbacks, prefetch, actions, clock, random, log });
  startedParts.defer(() => dispatcher.stop(Promise.resolve()).then(() => {}));
  store.onRecovered?.((recovery) => {
    for (const lost of recovery.failed) dispatcher.metrics.countLost(lost);
    queue.reportRecovery(recovery);
  });
  const checks = {
    task_threads: () => (pool.serving ? undefined : 'the task threads do not start'),
    task_queue: () => dispatcher.writeFailure ?? store.problem(),
  };
  const problems = Object.values(checks);
  const savedHistory = await store.reads.readHistory(HISTORIES.queue);
  const monitor = createQueueMonitor({
    ...{ queue, pool, dispatcher, bounds, prefetch, problems, moduleProblem, savedHistory, clock },
  });
  startedParts.defer(() => monitor.stop());
  const rules = { actions, rejectUnknown: settings.unknownActions === 'reject' };
  let compiled = await compileRules(rules);
  const check: MainThreadCheck = (action, data) => compiled?.(action, data);
  const memoryMb = parserMemoryMb(settings.bodyLimit);
  const submissions = new SubmissionThread({ memoryMb, rules: compiled || watched ? rules : undefined, clock, log });
  startedParts.defer(() => submissions.stop());
  const newTaskId = taskIds(random);
  const scheduler = new Scheduler({ queue, actions, newTaskId, clock, log });
  startedParts.defer(() => scheduler.stop());
  const limits = ownLimits(actions, callbackHosts);
  const requests = new RequestMetrics();
  const bodies = new ByteBudget(settings.bodyBudgetBytes);
  const responses = new ByteBudget(settings.responseBudgetBytes);
  const { app, local } = await createTasksApp({
    ...{ requests, queue, events, monitor, scheduler, submissions, check, rules, responses, access, clock, log },
    ...{ callbackHosts, ownLimits: limits, newTaskId },
    bodies: { limit: settings.bodyLimit, budget: bodies },
    corsOrigins: http.corsOrigins,
    trustProxy: http.trustProxy,
  });
  const { port } = settings;
  const options = { ...http, maxConnections: shares.tasks };
  const listener = port === undefined ? undefined : await listen(app.callback(), { ...options, port });
  startedParts.defer(() => listener?.close(Promise.resolve()));
  for (const lost of await store.start()) {
    log.warn({ task: lost.id, action: lost.action, decision: 'discard' }, 'task failed: its processes died');
    dispatcher.metrics.countLost(lost);
  }
  await storeOwnLimits(store, limits);
  await scheduler.start(schedules);
  monitor.start();
  const maintenance = startMaintenance();
  dispatcher.start();
  startedParts.move();
  // A store that is not durable is in this process, and counts at once.
  let unsaved = () => (store.isDurable ? 0 : unfinished(store.counts() as QueueCounts));
  return {
    listener,
    /** Requests of this process, which need no token. */
    fetch: localFetch(local.callback()),
    rules,
    /** Readiness checks by name. While a check returns a problem, the service is not ready. */
    checks,
    /** Checks by name. A failing check is reported as a warning, but the service stays ready. */
    warnings: warningsOf(queue, watched && { handlers_module: moduleProblem }),
    metrics: {
      ...{ requests, bodies, responses, queue, bounds, dispatcher, pool, callbacks, events, scheduler },
      /** Returns the reason why the store cannot be written, or undefined when healthy. */
      problem: () => store.problem(),
    },
    /** Continues with a changed handlers module, whose files are loaded by new threads. @throws {Error} */
    async reload(module: Pick<TasksParts, 'actions' | 'schedules'>, files: ModuleSources): Promise<void> {
      const { actions: next = new Map(), schedules: definitions } = module;
      const own = ownLimits(next, callbackHosts);
      const check = await compileRules({ ...rules, actions: next });
      await storeOwnLimits(store, own);
      await scheduler.replace(definitions);
      // Nothing from here on can fail, so all parts have the same module.
      compiled = check;
      replaceAll(actions, next);
      replaceAll(limits, own);
      dispatcher.metrics.attempts.add(next.keys());
      submissions.reload();
      pool.reload(files);
    },
    async stop({ connections, abort, all }: StopDeadlines): Promise<Unfinished> {
      events.close();
      await scheduler.stop();
      await listener?.close(connections);
      await submissions.stop();
      await monitor.stop();
      // Drains an in-memory queue first, because its tasks would be lost if it could not be saved. Built-in handlers have
      // no abort signal, so they run until the deadline.
      if (!store.isDurable) await dispatcher.drain(all, settings.handlers === undefined ? all : abort);
      await dispatcher.stop(all);
      await maintenance.stop();
      const count = await queue.counts().then(unfinished, () => 0);
      queue.close();
      const kept = await store.close();
      unsaved = () => (kept ? 0 : count);
      return { unfinished: count, kept };
    },
    /** Number of accepted tasks that would be lost if the process ended now. */
    unsaved: () => unsaved(),
  };
}

function replaceAll<Key, Value>(map: Map<Key, Value>, entries: ReadonlyMap<Key, Value>): void {
  map.clear();
  for (const [key, value] of entries) map.set(key, value);
}

function reportPauses(queue: Queue, events: TaskEvents, clock: Clock, log: Log): void {
  const report = (isPaused: boolean) =>
    isPaused
      ? log.warn('the queue is paused: no task is processed until it is resumed')
      : log.info('the queue is resumed');
  if (queue.isPaused) report(true);
  queue.on('pause', (isPaused) => {
    report(isPaused);
    events.record({ event: isPaused ? 'paused' : 'resumed', at: clock.now() });
  });
}

function warningsOf(queue: Queue, others: Checks = {}): Checks {
  return {
    ...others,
    queue_paused: () => (queue.isPaused ? 'no task is processed until POST /queue/resume' : undefined),
    dead_letters: async () => {
      const { evicted } = await queue.counts();
      return evicted === 0 ? undefined : `${evicted} dead letters were evicted because of their bound`;
    },
  };
}

async function compileRules(rules: SubmissionRules): Promise<MainThreadCheck | undefined> {
  const hasSchema = [...rules.actions.values()].some(({ schema }) => schema !== undefined);
  if (!hasSchema && !rules.rejectUnknown) return undefined;
  // Imported lazily, because most installations do not check submissions.
  const { submissionCheck } = await import('../../workers/submissions/data-schemas.ts');
  return submissionCheck(rules, () => DEFERRED);
}

// Parsing needs up to 40 times the size of a body. The limit is far higher, because V8 sometimes aborts the whole
// process when a thread reaches its heap limit.
function parserMemoryMb(bodyLimit: number): number {
  return 128 + Math.ceil((128 * bodyLimit) / 2 ** 20);
}

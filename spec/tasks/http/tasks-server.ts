import type { Socket } from 'node:net';
import { join } from 'node:path';
import { Database } from '../../../db/sqlite/database.ts';
import { migrate } from '../../../db/sqlite/migrate.ts';
import { Tasks } from '../../../db/sqlite/tasks.ts';
import { ByteBudget } from '../../../main/http/byte-budget.ts';
import { RequestMetrics } from '../../../main/metrics/request-metrics.ts';
import type { TaskAccess } from '../../../main/tasks/http/access.ts';
import { createTasksApp } from '../../../main/tasks/http/app.ts';
import { SubmissionThread } from '../../../main/tasks/http/submission-thread.ts';
import { QueueHistory } from '../../../main/tasks/monitor/queue-history.ts';
import { QueueMonitor } from '../../../main/tasks/monitor/queue-monitor.ts';
import { LocalQueue } from '../../../main/tasks/queue/local-queue.ts';
import type { Delivery, Message, QueueBounds, TaskEvent } from '../../../main/tasks/queue/queue.ts';
import type { Journal } from '../../../main/tasks/queue/sqlite-journal.ts';
import { TaskEvents } from '../../../main/tasks/task-events.ts';
import type { SubmissionRules } from '../../../workers/handlers-manifest.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/histogram.ts';
import { mainThreadCheck } from '../../../workers/submission-check.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { holdToContract } from '../../support/contract-watch.ts';
import { type CapturedLog, captureLog } from '../../support/log.ts';
import { type HttpResponse, request } from '../../support/program.ts';
import { serve } from '../../support/server.ts';

export interface TasksServer extends CapturedLog {
  /** URL of the listener, and of its `/tasks`. */
  url: string;
  sockets: Set<Socket>;
  tasksUrl: string;
  port: number;
  requests: RequestMetrics;
  events: TaskEvents;
  /** Problem that the queue's monitor reports as a stall. */
  health: { problem: string | undefined };
  queue: LocalQueue;
  database: Database;
  /** Path of the database's file. */
  file: string;
  tasks: Tasks;
  submit(body: NonNullable<RequestInit['body']>, init?: RequestInit): Promise<HttpResponse>;
  /** Takes the waiting messages from the queue, in order. */
  queued(): Message[];
}

/** Starts service B's HTTP side with a database and a queue without a consumer. */
export async function startTasksServer({
  bodyLimit = 1000,
  bodyBudget = new ByteBudget(10_000_000),
  responses = new ByteBudget(128_000_000),
  maxLength = 100,
  maxBytes = 100_000,
  maxKeys = 100,
  journal,
  realRows = true,
  access,
  corsOrigins = [],
  trustProxy = 0,
  rules,
  checkTimeoutMs = 60_000,
}: Partial<QueueBounds> & {
  bodyLimit?: number;
  bodyBudget?: ByteBudget;
  responses?: ByteBudget;
  journal?: Journal;
  realRows?: boolean;
  access?: TaskAccess;
  corsOrigins?: readonly string[];
  trustProxy?: number;
  rules?: SubmissionRules;
  /** Time limit of a check in the submission thread. */
  checkTimeoutMs?: number;
} = {}): Promise<TasksServer> {
  const folder = await temporaryFolder();
  migrate(folder);
  const file = join(folder, 'tasks.db');
  const database = new Database(file, { busyTimeoutMs: 50 });
  afterTest(() => database.close());
  const events = new TaskEvents();
  afterTest(() => events.close());
  const history = new QueueHistory();
  const onEvent = (event: TaskEvent) => {
    history.record(event);
    events.record(event);
  };
  const queue = new LocalQueue({ maxLength, maxBytes, maxKeys }, { ...(journal && { journal }), onEvent });
  afterTest(() => queue.close());
  const health: TasksServer['health'] = { problem: undefined };
  const monitor = new QueueMonitor({
    history,
    queue,
    pool: { threads: 2, busy: 0, durations: [new Histogram(TASK_DURATION_BOUNDS)] },
    dispatcher: { metrics: { waits: new Histogram(TASK_DURATION_BOUNDS) } },
    bounds: { maxLength, maxBytes },
    prefetch: 5,
    problems: [() => health.problem],
  });
  afterTest(() => monitor.stop());
  const tasks = new Tasks(database);
  const captured = captureLog();
  const requests = new RequestMetrics();
  const submissions = new SubmissionThread({ memoryMb: 128, rules, checkTimeoutMs, log: captured.log });
  afterTest(() => submissions.stop());
  const app = await createTasksApp({
    requests,
    queue,
    tasks,
    events,
    monitor,
    bodies: { limit: bodyLimit, budget: bodyBudget },
    submissions,
    check: rules && mainThreadCheck(rules),
    rules: rules ?? { actions: new Map(), rejectUnknown: false },
    responses,
    access,
    corsOrigins,
    trustProxy,
    log: captured.log,
  });
  const { url, listener, sockets } = await serve(app.callback());
  // Made-up rows need not match the contract.
  if (realRows) afterTest(holdToContract(listener.port, 'tasks').forget);
  const tasksUrl = `${url}/tasks`;
  return {
    ...captured,
    url,
    sockets,
    tasksUrl,
    port: listener.port,
    requests,
    events,
    health,
    queue,
    database,
    file,
    tasks,
    submit: (body, init = {}) => request(tasksUrl, { method: 'POST', body, ...init }),
    queued: () => (queue.take(Number.POSITIVE_INFINITY) as Delivery[]).map(({ message }) => message),
  };
}

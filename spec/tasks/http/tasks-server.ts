import { join } from 'node:path';
import { expect } from 'chai';
import { SqliteStore } from '../../../db/sqlite/store.ts';
import type { TaskRow } from '../../../db/task-rows.ts';
import type { Delivery, Message, QueueBounds, Settlement } from '../../../db/task-store.ts';
import { ByteBudget } from '../../../main/http/request-body.ts';
import { RequestMetrics } from '../../../main/metrics/request-metrics.ts';
import { DispatchMetrics } from '../../../main/tasks/dispatch/dispatcher.ts';
import { createTasksApp, type TasksAppOptions } from '../../../main/tasks/http/app.ts';
import { taskIds } from '../../../main/tasks/http/prepare-submission.ts';
import { SubmissionThread } from '../../../main/tasks/http/submission-thread.ts';
import { ownLimits } from '../../../main/tasks/limits.ts';
import { Queue } from '../../../main/tasks/queue.ts';
import { createQueueMonitor } from '../../../main/tasks/queue-monitor.ts';
import { Scheduler } from '../../../main/tasks/schedules/scheduler.ts';
import { TaskEvents } from '../../../main/tasks/task-events.ts';
import { type Clock, systemClock, systemRandom } from '../../../workers/shared/clock.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/shared/histogram.ts';
import { submissionCheck } from '../../../workers/submissions/data-schemas.ts';
import { DEFERRED } from '../../../workers/submissions/parse-submission.ts';
import type { ActionSettings } from '../../../workers/tasks/messages.ts';
import type { AttemptTimes } from '../../store/stage.ts';
import { afterTest } from '../../support/cleanup.ts';
import { holdToContract } from '../../support/contract-watch.ts';
import { captureLog } from '../../support/log.ts';
import { ManualClock } from '../../support/manual-clock.ts';
import { migratedFolder, openBeside } from '../../support/migrated-folder.ts';
import { request } from '../../support/program.ts';
import { serve } from '../../support/server.ts';
import { until } from '../../support/until.ts';

export type TasksServer = Awaited<ReturnType<typeof startTasksServer>>;

export const RESULT = '{"output":0}';

export const idOf = (number: number) => `00000000-0000-4000-8000-${String(number).padStart(12, '0')}`;

/** Time limit of a check in the submission thread, whose clock a spec advances. */
const CHECK_TIMEOUT_MS = 60_000;

interface Options
  extends Partial<Pick<TasksAppOptions, 'access' | 'callbackHosts' | 'corsOrigins' | 'responses' | 'trustProxy'>>,
    Partial<Pick<QueueBounds, 'maxLength' | 'maxBytes'>> {
  bodyLimit?: number;
  bodyBudget?: ByteBudget;
  clock?: Clock;
  /** Whether the responses match the contract, unlike those with made-up rows. */
  realRows?: boolean;
  actions?: Record<string, ActionSettings>;
  rejectUnknown?: boolean;
}

/** Starts service B's HTTP side with a store and a queue without a consumer. */
export async function startTasksServer(options: Options = {}) {
  const { bodyLimit = 200_000, maxLength = 20_000, maxBytes = 10_000_000, trustProxy = 0, realRows = true } = options;
  const { corsOrigins = [], callbackHosts = [], access, rejectUnknown = false } = options;
  const { bodyBudget = new ByteBudget(10_000_000), responses = new ByteBudget(128_000_000) } = options;
  const actions = new Map(Object.entries(options.actions ?? {}));
  const rules = { actions, rejectUnknown };
  const [clock, random] = [systemClock, systemRandom];
  const dataDir = await migratedFolder();
  const bounds = { maxLength, maxBytes, maxKeys: 100 };
  const storage = { dataDir, driver: 'memory', bounds, now: clock.now, newId: random.uuid } as const;
  const store = new SqliteStore({ ...storage, excessRows: async () => 0 });
  afterTest(() => store.close());
  store.start();
  const events = new TaskEvents({ clock: options.clock ?? clock, random });
  afterTest(() => events.close());
  const queue = await Queue.open({ store, onEvent: events.record, clock });
  afterTest(() => queue.close());
  const metrics = new DispatchMetrics(['sum', 'mail']);
  const monitor = createQueueMonitor({
    queue,
    pool: { threads: 2, overlap: 1, busy: 0, durations: new Histogram(TASK_DURATION_BOUNDS), threadOf: () => 7 },
    dispatcher: { metrics },
    bounds,
    prefetch: 5,
    problems: [],
    clock,
  });
  monitor.start();
  afterTest(() => monitor.stop());
  const captured = captureLog();
  const requests = new RequestMetrics();
  const checks = new ManualClock();
  const timer: Clock['timer'] = (delayMs, run) =>
    delayMs === CHECK_TIMEOUT_MS ? checks.timer(delayMs, run) : () => {};
  const limits = { memoryMb: 128, checkTimeoutMs: CHECK_TIMEOUT_MS, clock: { ...clock, timer } };
  const submissions = new SubmissionThread({ ...limits, rules: options.actions && rules, log: captured.log });
  afterTest(() => submissions.stop());
  const newTaskId = taskIds(random);
  const scheduler = new Scheduler({ queue, actions, newTaskId, clock, log: captured.log });
  const { app } = await createTasksApp({
    requests,
    queue,
    scheduler,
    events,
    monitor,
    bodies: { limit: bodyLimit, budget: bodyBudget },
    submissions,
    check: options.actions && submissionCheck(rules, () => DEFERRED),
    rules,
    callbackHosts,
    ownLimits: ownLimits(actions, callbackHosts),
    responses,
    access,
    corsOrigins,
    trustProxy,
    clock: options.clock ?? clock,
    newTaskId,
    log: captured.log,
  });
  const { url, listener, sockets } = await serve(app.callback());
  if (realRows) afterTest(holdToContract(listener.port, 'tasks').forget);
  const tasksUrl = `${url}/tasks`;
  const file = join(dataDir, 'tasks.db');
  const takeAll = async (count: number): Promise<Delivery[]> => {
    const deliveries: Delivery[] = [];
    await until(async () => {
      deliveries.push(...(await queue.take(count - deliveries.length, true)).deliveries);
      return deliveries.length === count;
    });
    return deliveries;
  };
  const settle = async (delivery: Delivery, settlement: Settlement, times: AttemptTimes = {}): Promise<void> => {
    await queue.settle([{ delivery, settlement, ...times }]);
  };
  /** Sends a request such as `PUT /limits/sum`, with a body as JSON. Returns status and body of the answer. */
  const ask = async (line: string, value?: unknown, headers: Record<string, string> = {}) => {
    const [method = '', path = ''] = line.split(' ');
    const { status, body } = await request(url + path, { method, body: JSON.stringify(value) ?? null, headers });
    return [status, body] as const;
  };
  const database = () => openBeside(dataDir);
  return {
    ...captured,
    ...{ url, tasksUrl, port: listener.port, sockets },
    ...{ requests, events, queue, store, metrics, responses },
    /** Waits for a check in the submission thread, and ends its time limit. */
    async expireCheck(): Promise<void> {
      await until(() => checks.timers > 0);
      checks.advance(CHECK_TIMEOUT_MS);
    },
    file,
    submit: (body: NonNullable<RequestInit['body']>, init: RequestInit = {}) =>
      request(tasksUrl, { method: 'POST', body, ...init }),
    /** Submits a task, of the action `sum` unless the fields name another one. Returns its id. */
    async submitTask(fields: object = {}, headers: Record<string, string> = {}): Promise<string> {
      const [status, body] = await ask('POST /tasks', { action: 'sum', ...fields }, headers);
      expect([status, body]).to.deep.equal([202, { id: body.id, status: 'queued' }]);
      return body.id;
    },
    ask,
    /** Returns the ids that a list or a search shows, which must be as many as it counts. */
    async listed(path: string, headers?: Record<string, string>): Promise<string[]> {
      const [status, answer] = await ask(`GET ${path}`, undefined, headers);
      const { tasks, dead_letters: rows = tasks, count, total = count } = answer;
      expect([status, count, total], path).to.deep.equal([200, rows.length, rows.length]);
      return rows.map(({ id }: { id: string }) => id);
    },
    find: async (id: string) => (await request(`${tasksUrl}/${id}`)).body,
    queued: async (): Promise<Message[]> => [...(await queue.take(10_000, true)).deliveries],
    take: async () => (await takeAll(1))[0] as Delivery,
    takeAll,
    settle,
    async complete(delivery: Delivery, times?: AttemptTimes): Promise<TaskRow> {
      await settle(delivery, { kind: 'complete', result: RESULT }, times);
      return store.reads.rows.find(delivery.id) as TaskRow;
    },
    database,
    storeRow(...rows: TaskRow[]): void {
      const columns = ['id', 'payload', 'status', 'result', 'created_at', 'processed_at'] as const;
      const insert = database().prepare(`INSERT INTO tasks (${columns}) VALUES (?, ?, ?, ?, ?, ?)`);
      for (const row of rows) insert.run(...columns.map((column) => row[column] ?? null));
    },
  };
}

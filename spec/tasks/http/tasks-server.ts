import { join } from 'node:path';
import { DatabaseSync } from 'node:sqlite';
import { SqliteStore } from '../../../db/sqlite/store.ts';
import type { TaskRow } from '../../../db/task-rows.ts';
import type { Delivery, Message, QueueBounds, Settlement } from '../../../db/task-store.ts';
import { ByteBudget } from '../../../main/http/byte-budget.ts';
import { RequestMetrics } from '../../../main/metrics/request-metrics.ts';
import type { TaskAccess } from '../../../main/tasks/http/access.ts';
import { createTasksApp } from '../../../main/tasks/http/app.ts';
import { SubmissionThread } from '../../../main/tasks/http/submission-thread.ts';
import { Queue } from '../../../main/tasks/queue.ts';
import { QueueMonitor } from '../../../main/tasks/queue-monitor.ts';
import { TaskEvents } from '../../../main/tasks/task-events.ts';
import { taskIds } from '../../../main/tasks/task-ids.ts';
import { systemClock, systemRandom } from '../../../workers/shared/clock.ts';
import { Histogram, TASK_DURATION_BOUNDS } from '../../../workers/shared/histogram.ts';
import { mainThreadCheck } from '../../../workers/submissions/data-schemas.ts';
import type { SubmissionRules } from '../../../workers/tasks/messages.ts';
import { afterTest, temporaryFolder } from '../../support/cleanup.ts';
import { holdToContract } from '../../support/contract-watch.ts';
import { captureLog } from '../../support/log.ts';
import { fillDataFolder } from '../../support/migrated-folder.ts';
import { request } from '../../support/program.ts';
import { serve } from '../../support/server.ts';
import { eventually } from '../../support/until.ts';

export type TasksServer = Awaited<ReturnType<typeof startTasksServer>>;

export const RESULT = '{"output":0}';

/** Starts service B's HTTP side with a store and a queue without a consumer. */
export async function startTasksServer({
  bodyLimit = 1000,
  bodyBudget = new ByteBudget(10_000_000),
  responses = new ByteBudget(128_000_000),
  maxLength = 100,
  maxBytes = 100_000,
  maxKeys = 100,
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
  realRows?: boolean;
  access?: TaskAccess;
  corsOrigins?: readonly string[];
  trustProxy?: number;
  rules?: SubmissionRules;
  /** Time limit of a check in the submission thread. */
  checkTimeoutMs?: number;
} = {}) {
  const [clock, random] = [systemClock, systemRandom];
  const dataDir = await temporaryFolder();
  fillDataFolder(dataDir);
  const bounds = { maxLength, maxBytes, maxKeys };
  const store = new SqliteStore({ dataDir, driver: 'memory', bounds, now: clock.now, excessRows: async () => 0 });
  afterTest(() => store.close());
  store.start();
  const events = new TaskEvents({ clock, random });
  afterTest(() => events.close());
  const queue = await Queue.open({ store, onEvent: events.record, clock });
  afterTest(() => queue.close());
  /** Problem that the queue's monitor reports as a stall. */
  const health: { problem: string | undefined } = { problem: undefined };
  const monitor = new QueueMonitor({
    queue,
    pool: { threads: 2, overlap: 1, busy: 0, durations: new Histogram(TASK_DURATION_BOUNDS) },
    dispatcher: { metrics: { waits: new Histogram(TASK_DURATION_BOUNDS) } },
    bounds,
    prefetch: 5,
    problems: [() => health.problem],
    clock,
  });
  monitor.start();
  afterTest(() => monitor.stop());
  const captured = captureLog();
  const requests = new RequestMetrics();
  const submissions = new SubmissionThread({ memoryMb: 128, rules, checkTimeoutMs, clock, log: captured.log });
  afterTest(() => submissions.stop());
  const app = await createTasksApp({
    requests,
    queue,
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
    clock,
    newTaskId: taskIds(random),
    log: captured.log,
  });
  const { url, listener, sockets } = await serve(app.callback());
  // Made-up rows need not match the contract.
  if (realRows) afterTest(holdToContract(listener.port, 'tasks').forget);
  const tasksUrl = `${url}/tasks`;
  const file = join(dataDir, 'tasks.db');
  /** Waits for the next `count` deliveries of the queue. */
  const takeAll = async (count: number): Promise<Delivery[]> => {
    const deliveries: Delivery[] = [];
    const takeMore = async () => {
      deliveries.push(...(await queue.take(count - deliveries.length, true)).deliveries);
      return deliveries.length;
    };
    return eventually(takeMore, (taken) => taken === count).then(() => deliveries);
  };
  const settle = async (delivery: Delivery, settlement: Settlement): Promise<void> => {
    await queue.settle([{ delivery, settlement }]);
  };
  let rows = 0;
  return {
    ...captured,
    /** URL of the listener, and of its `/tasks`. */
    ...{ url, tasksUrl, port: listener.port, sockets },
    ...{ requests, events, health, queue, store },
    /** Path of the file with the rows. */
    file,
    submit: (body: NonNullable<RequestInit['body']>, init: RequestInit = {}) =>
      request(tasksUrl, { method: 'POST', body, ...init }),
    /** Takes the waiting messages from the queue, in order. */
    queued: async (): Promise<Message[]> => [...(await queue.take(10_000, true)).deliveries],
    /** Waits for the next delivery of the queue. */
    take: async () => (await takeAll(1))[0] as Delivery,
    takeAll,
    settle,
    /** Settles a delivery as completed. Returns its row. */
    async complete(delivery: Delivery): Promise<TaskRow> {
      await settle(delivery, { kind: 'complete', result: RESULT });
      return store.rows.find(delivery.id) as TaskRow;
    },
    /** Writes a row, without a message. */
    storeRow: (row: TaskRow) => store.rows.store(++rows, row),
    /** Runs a statement in the file with the rows. */
    runSql(sql: string, ...values: (string | number)[]): void {
      using beside = new DatabaseSync(file);
      beside.prepare(sql).run(...values);
    },
  };
}

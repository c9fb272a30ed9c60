import Koa from 'koa';
import type { SubmissionRules } from '../../../workers/handlers-manifest.ts';
import type { MainThreadCheck } from '../../../workers/parse-submission.ts';
import { Admission } from '../../http/admission.ts';
import type { BodyBounds } from '../../http/body-buffer.ts';
import type { ByteBudget } from '../../http/byte-budget.ts';
import { crossSite } from '../../http/cross-site.ts';
import { jsonErrors, logLateError, notFound } from '../../http/json-errors.ts';
import { staticClient } from '../../http/static-files.ts';
import type { Log } from '../../log.ts';
import { type RequestMetrics, recordRequests } from '../../metrics/request-metrics.ts';
import type { QueueMonitor } from '../monitor/queue-monitor.ts';
import type { Queue } from '../queue/queue.ts';
import type { TaskEvents } from '../task-events.ts';
import type { TaskStore } from '../task-store.ts';
import { requireToken, type TaskAccess } from './access.ts';
import { actionsRouter } from './actions-router.ts';
import { redirectToBoard } from './board-redirect.ts';
import { deadLettersRouter } from './dead-letters-router.ts';
import { eventsRouter } from './events-router.ts';
import { queueRouter } from './queue-router.ts';
import { queueStatusRouter } from './queue-status-router.ts';
import type { SubmissionThread } from './submission-thread.ts';
import { tasksRouter } from './tasks-router.ts';

export interface TasksAppOptions {
  queue: Omit<Queue, 'take' | 'settle' | 'markRunning' | 'reportProgress' | 'onReady' | 'onCancel' | 'close'>;
  tasks: TaskStore;
  events: TaskEvents;
  monitor: Pick<QueueMonitor, 'status' | 'history'>;
  bodies: BodyBounds;
  submissions: Pick<SubmissionThread, 'parse'>;
  /** Checks submissions against the rules of the handlers module. If undefined, all submissions are accepted. */
  check?: MainThreadCheck | undefined;
  rules: SubmissionRules;
  responses: ByteBudget;
  /** If undefined, requests need no token. */
  access: TaskAccess | undefined;
  corsOrigins: readonly string[];
  requests: RequestMetrics;
  /** Number of proxies whose `X-Forwarded-For` is trusted. */
  trustProxy: number;
  log: Log;
}

export interface TasksRouterOptions extends TasksAppOptions {
  admission: Admission;
}

/** Creates the Koa app of the task service. @throws {Error} if a file of the browser client cannot be read */
export async function createTasksApp(options: TasksAppOptions): Promise<Koa> {
  const app = new Koa();
  const admission = new Admission();
  app.on('error', logLateError(options.log));
  app.proxy = options.trustProxy > 0;
  app.maxIpsCount = options.trustProxy;
  app.use(recordRequests(options.requests));
  app.use(jsonErrors(options.log));
  for (const middleware of crossSite({ corsOrigins: options.corsOrigins, refused: 'writes' })) app.use(middleware);
  app.use(await staticClient('tasks'));
  app.use(redirectToBoard);
  if (options.access !== undefined) {
    app.use(options.access.tokenRoutes);
    app.use(requireToken(options.access));
  }
  // Registered before `tasksRouter`, whose route `/tasks/:id` would match `/tasks/events`.
  app.use(eventsRouter(options).routes());
  app.use(actionsRouter(options).routes());
  app.use(tasksRouter({ ...options, admission }).routes());
  app.use(queueStatusRouter({ ...options, admission }).routes());
  app.use(queueRouter(options).routes());
  app.use(deadLettersRouter({ ...options, admission }).routes());
  app.use(notFound);
  return app;
}

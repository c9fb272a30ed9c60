import Koa from 'koa';
import type { Tasks } from '../../db/tasks.ts';
import { jsonErrors, logLateError, notFound } from '../http/json-errors.ts';
import { staticClient } from '../http/static-client.ts';
import type { Log } from '../log.ts';
import type { QueueDriver } from './queue/driver.ts';
import { tasksRouter } from './tasks-router.ts';

export interface TasksAppOptions {
  queue: Pick<QueueDriver, 'publish'>;
  tasks: Pick<Tasks, 'list' | 'locate' | 'read'>;
  bodyLimit: number;
  log: Log;
}

/** Service B's HTTP side. Does not listen. */
export function createTasksApp(options: TasksAppOptions): Koa {
  const app = new Koa();
  const router = tasksRouter(options);
  app.on('error', logLateError(options.log));
  app.use(jsonErrors(options.log));
  app.use(router.routes());
  for (const middleware of staticClient('tasks')) app.use(middleware);
  app.use(notFound);
  return app;
}

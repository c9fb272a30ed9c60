import Koa from 'koa';
import type { Checks } from '../check.ts';
import { crossSite } from '../http/cross-site.ts';
import { jsonErrors, logLateError, notFound } from '../http/json-errors.ts';
import type { Log } from '../log.ts';
import type { MetricsRegistry } from '../metrics/registry.ts';
import { adminRouter } from './admin-router.ts';

export interface AdminAppOptions {
  checks: Checks;
  warnings?: Checks;
  metrics: Pick<MetricsRegistry, 'text' | 'contentType'>;
  /** Origins whose pages may send cross-origin requests. */
  corsOrigins: readonly string[];
  log: Log;
}

/** Creates the Koa app of the admin listener. */
export function createAdminApp(options: AdminAppOptions): Koa {
  const app = new Koa();
  app.on('error', logLateError(options.log));
  app.use(jsonErrors(options.log));
  for (const middleware of crossSite({ corsOrigins: options.corsOrigins, refused: 'all' })) app.use(middleware);
  app.use(adminRouter(options).routes());
  app.use(notFound);
  return app;
}

import type Router from '@koa/router';
import Koa from 'koa';
import type { Checks } from '../check.ts';
import { Admission, TURN_BYTES } from '../http/admission.ts';
import { crossSite } from '../http/cross-site.ts';
import { exactRouter, refuseOtherMethods } from '../http/exact-router.ts';
import { jsonErrors, logLateError, notFound } from '../http/json-errors.ts';
import { replyJson } from '../http/json-reply.ts';
import type { Log } from '../log.ts';
import type { MetricsRegistry } from '../metrics/registry.ts';
import { readiness } from './readiness.ts';

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

const PATHS = ['/healthz', '/readyz', '/metrics', '/openapi.json', '/asyncapi.json'];

/** Creates the router for health checks, metrics, and the contracts of all listeners. */
export function adminRouter({ checks, warnings, metrics }: Omit<AdminAppOptions, 'corsOrigins' | 'log'>): Router {
  const router = exactRouter();

  router.get('/healthz', (ctx) => replyJson(ctx, 200, { status: 'ok' }));

  router.get('/readyz', async (ctx) => {
    const result = await readiness(checks, warnings);
    replyJson(ctx, result.status === 'ready' ? 200 : 503, result);
  });

  // One rendering in each turn of the event loop: it takes milliseconds, and ticks and health probes come in between.
  const admission = new Admission();
  router.get('/metrics', async (ctx) => {
    await admission.enter(TURN_BYTES);
    ctx.type = metrics.contentType;
    ctx.body = await metrics.text();
  });

  // Imported on the first request: the contracts load hundreds of modules, a quarter of the startup time.
  router.get('/openapi.json', async (ctx) => {
    const { openApi } = await import('../contracts/openapi.ts');
    replyJson(ctx, 200, openApi);
  });

  router.get('/asyncapi.json', async (ctx) => {
    const { asyncApi } = await import('../contracts/asyncapi.ts');
    replyJson(ctx, 200, asyncApi);
  });

  for (const path of PATHS) router.all(path, refuseOtherMethods('GET', 'HEAD'));

  return router;
}

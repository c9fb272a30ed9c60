import type Router from '@koa/router';
import { Admission, TURN_BYTES } from '../http/admission.ts';
import { exactRouter } from '../http/exact-router.ts';
import { replyJson } from '../http/json-reply.ts';
import { refuseOtherMethods } from '../http/other-methods.ts';
import type { AdminAppOptions } from './app.ts';
import { readiness } from './readiness.ts';

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

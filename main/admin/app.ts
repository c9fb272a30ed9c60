import Router from '@koa/router';
import Koa from 'koa';
import { jsonErrors, logLateError, notFound } from '../http/json-errors.ts';
import { replyJson } from '../http/json-reply.ts';
import { refuseOtherMethods } from '../http/other-methods.ts';
import type { Log } from '../log.ts';
import type { Metrics } from './metrics.ts';
import { type Check, readiness } from './readiness.ts';

export interface AdminAppOptions {
  checks: Readonly<Record<string, Check>>;
  metrics: Pick<Metrics, 'text' | 'contentType'>;
  log: Log;
}

/** What those who run the services ask: does it live, is it ready, how does it fare. Does not listen. */
export function createAdminApp({ checks, metrics, log }: AdminAppOptions): Koa {
  const app = new Koa();
  const router = new Router();

  router.get('/healthz', (ctx) => replyJson(ctx, 200, { status: 'ok' }));

  router.get('/readyz', (ctx) => {
    const found = readiness(checks);
    replyJson(ctx, found.status === 'ready' ? 200 : 503, found);
  });

  router.get('/metrics', async (ctx) => {
    ctx.type = metrics.contentType;
    ctx.body = await metrics.text();
  });

  for (const path of ['/healthz', '/readyz', '/metrics']) router.all(path, refuseOtherMethods('GET', 'HEAD'));

  app.on('error', logLateError(log));
  app.use(jsonErrors(log));
  app.use(router.routes());
  app.use(notFound);
  return app;
}

import type Router from '@koa/router';
import Koa from 'koa';
import type { SubmissionRules } from '../../workers/handlers-manifest.ts';
import { defaultSymbols, type TickerSymbol } from '../../workers/symbols.ts';
import { contractDocuments } from '../contracts/documents.ts';
import { Admission, TURN_BYTES } from '../http/admission.ts';
import { crossSite } from '../http/cross-site.ts';
import { answerOtherMethods, exactRouter } from '../http/exact-router.ts';
import { jsonErrors, logLateError, notFound } from '../http/json-errors.ts';
import { replyJson, replyText } from '../http/json-reply.ts';
import type { Log } from '../log.ts';
import type { Checks } from '../readiness-check.ts';
import { adminPages, indexRouter } from './index-page.ts';
import { readiness } from './readiness.ts';

export interface AdminAppOptions {
  /** Readiness checks by name. The process is ready if all checks pass. Checks must not block the main thread. */
  checks: Checks;
  /** Checks whose problems `/readyz` reports as warnings, which do not make the process unready. */
  warnings?: Checks;
  metrics: { metrics(): Promise<string>; contentType: string };
  rules?: SubmissionRules;
  symbols?: readonly TickerSymbol[];
  corsOrigins: readonly string[];
  log: Log;
}

export function createAdminApp(options: AdminAppOptions): Koa {
  const app = new Koa();
  app.on('error', logLateError(options.log));
  app.use(jsonErrors(options.log));
  // The index page precedes the middleware that refuses cross-site requests, so that other sites can link to the page.
  app.use(indexRouter().routes());
  for (const middleware of crossSite({ corsOrigins: options.corsOrigins, refused: 'all' })) app.use(middleware);
  app.use(adminRouter(options).routes());
  app.use(notFound);
  return app;
}

const NO_RULES: SubmissionRules = { actions: new Map(), rejectUnknown: false };

/** Creates the router for health checks, metrics, and the OpenAPI and AsyncAPI documents. */
export function adminRouter(options: Omit<AdminAppOptions, 'corsOrigins' | 'log'>): Router {
  const { checks, warnings = {}, metrics, rules = NO_RULES, symbols = defaultSymbols } = options;
  const router = exactRouter();

  router.get('/healthz', (ctx) => replyJson(ctx, 200, { status: 'ok' }));

  router.get('/readyz', async (ctx) => {
    const { isReady, body } = await readiness(checks, warnings);
    replyJson(ctx, isReady ? 200 : 503, body);
  });

  // Rendering the metrics takes milliseconds and delays ticks, so each event loop turn admits only one scrape.
  const admission = new Admission();
  router.get('/metrics', async (ctx) => {
    await admission.enter(TURN_BYTES);
    ctx.type = metrics.contentType;
    ctx.body = await metrics.metrics();
  });

  const documents = contractDocuments({ rules, symbols });
  router.get('/openapi.json', async (ctx) => replyText(ctx, 200, (await documents()).openApi));
  router.get('/asyncapi.json', async (ctx) => replyText(ctx, 200, (await documents()).asyncApi));

  for (const path of Object.keys(adminPages)) router.all(path, answerOtherMethods('GET', 'HEAD'));

  return router;
}

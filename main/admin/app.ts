import Koa from 'koa';
import type { SubmissionRules } from '../../workers/tasks/messages.ts';
import type { Config } from '../config.ts';
import { type Handler, router } from '../http/exact-router.ts';
import { jsonErrors, logLateError, notFound, replyJson, replyText } from '../http/json-reply.ts';
import { crossSite } from '../http/origins.ts';
import { type Checks, readiness } from '../http/readiness.ts';
import { pageHeaders } from '../http/static-files.ts';
import { TURN_BYTES, TurnLimit } from '../http/turn-limit.ts';
import type { Log } from '../log/log.ts';
import { apiDocuments } from './api-documents.ts';

interface AdminAppOptions extends Pick<Config['http'], 'corsOrigins'>, Pick<Config['ticker'], 'symbols'> {
  /** Readiness checks by name. The process is ready if all checks pass. Checks must not block the main thread. */
  checks: Checks;
  /** Checks whose problems `/readyz` reports as warnings, which do not make the process unready. */
  warnings: Checks;
  metrics: { metrics(): Promise<string>; contentType: string };
  rules: SubmissionRules;
  log: Log;
}

/** Creates the Koa app of the admin listener: health checks, metrics, and the OpenAPI and AsyncAPI documents. */
export function createAdminApp(options: AdminAppOptions): Koa {
  const { checks, warnings, metrics, corsOrigins, log } = options;
  const app = new Koa();
  app.on('error', logLateError(log));
  app.use(jsonErrors(log));
  // The index page precedes the middleware that refuses cross-site requests, so that other sites can link to the page.
  app.use(router({ '/': { GET: showIndex } }));
  for (const middleware of crossSite({ corsOrigins, refused: 'all' })) app.use(middleware);
  // Rendering the metrics takes milliseconds and delays ticks, so each event loop turn admits only one scrape.
  const turns = new TurnLimit();
  const documents = apiDocuments(options.rules, options.symbols);
  const handlers: Record<keyof typeof adminPages, Handler> = {
    '/healthz': (ctx) => replyJson(ctx, 200, { status: 'ok' }),
    '/readyz': async (ctx) => {
      const { isReady, body } = await readiness(checks, warnings);
      replyJson(ctx, isReady ? 200 : 503, body);
    },
    '/metrics': async (ctx) => {
      await turns.enter(TURN_BYTES);
      ctx.type = metrics.contentType;
      ctx.body = await metrics.metrics();
    },
    '/openapi.json': async (ctx) => replyText(ctx, 200, await documents.openApi()),
    '/asyncapi.json': async (ctx) => replyText(ctx, 200, await documents.asyncApi()),
  };
  app.use(router(Object.fromEntries(Object.entries(handlers).map(([path, GET]) => [path, { GET }]))));
  app.use(notFound);
  return app;
}

const adminPages = {
  '/healthz': '200 while the process is alive',
  '/readyz': 'whether clients should be sent to this process, and the state of each check',
  '/metrics': 'metrics in the Prometheus text format',
  '/openapi.json': 'the HTTP API, as OpenAPI 3.1',
  '/asyncapi.json': 'the messages of the price stream, as AsyncAPI 3.0',
};

const page = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Ticker and task queue: admin</title>
<h1>Ticker and task queue: admin</h1>
<ul>
${Object.entries(adminPages)
  .map(([path, description]) => `<li><a href="${path}">${path}</a>: ${description}</li>\n`)
  .join('')}</ul>
</html>
`;

const showIndex: Handler = (ctx) => {
  ctx.set(pageHeaders);
  ctx.type = 'html';
  ctx.body = page;
};

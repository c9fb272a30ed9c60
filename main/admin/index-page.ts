import type Router from '@koa/router';
import { answerOtherMethods, exactRouter } from '../http/exact-router.ts';
import { pageHeaders } from '../http/static-files.ts';

export const adminPages: Readonly<Record<string, string>> = {
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

/** Creates the router for `/`, a page with links to all paths of the admin listener. */
export function indexRouter(): Router {
  const router = exactRouter();
  router.get('/', (ctx) => {
    ctx.set(pageHeaders);
    ctx.type = 'html';
    ctx.body = page;
  });
  router.all('/', answerOtherMethods('GET', 'HEAD'));
  return router;
}

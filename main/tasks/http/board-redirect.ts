import type { Middleware } from 'koa';
import { apiHeaders } from '../../http/security-headers.ts';

const TASK_PATH = /^\/tasks\/(?!events$)([\w-]+)$/;

/**
 * Middleware that redirects a browser from a task's URL, for example the `Location` of a 202, to the task on the board.
 *
 * Recognizes a browser by `Sec-Fetch-Dest`, which neither scripts nor other clients send with this value. `Accept` is no
 * safe criterion: Java's HttpURLConnection prefers `text/html` by default. Over plain HTTP, browsers send
 * `Sec-Fetch-Dest` only to loopback addresses. To other addresses, they get JSON.
 *
 * Must be registered before the token is required, because a browser cannot send a token when it opens a URL.
 */
export const redirectToBoard: Middleware = (ctx, next) => {
  const [, id] = TASK_PATH.exec(ctx.path) ?? [];
  const isRead = ctx.method === 'GET' || ctx.method === 'HEAD';
  if (id === undefined || !isRead || ctx.get('Sec-Fetch-Dest') !== 'document') return next();
  ctx.respond = false;
  ctx.res.writeHead(303, { ...apiHeaders, 'Content-Length': 0, Location: `/?task=${id}` }).end();
  return undefined;
};

import { fileURLToPath } from 'node:url';
import type { Middleware } from 'koa';
import serve from 'koa-static';
import { HttpError } from './errors.ts';

/**
 * Serves a browser client from its folder below `www`: files by their path, `index.html` at the root and for
 * every path that is no file. Takes GET and HEAD; any other method is refused.
 */
export function staticClient(client: 'ticker' | 'tasks'): Middleware[] {
  const root = fileURLToPath(new URL(`../../www/${client}/`, import.meta.url));
  const files = serve(root);
  return [
    (ctx, next) => {
      if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
        throw new HttpError('methodNotAllowed', { headers: { Allow: 'GET, HEAD' } });
      }
      return next();
    },
    notModified,
    files,
    (ctx, next) => {
      ctx.path = '/';
      return files(ctx, next);
    },
  ];
}

/** Answers 304 where the client's copy is as new as the file, which koa-static leaves to others. */
const notModified: Middleware = async (ctx, next) => {
  await next();
  if (ctx.status === 200 && ctx.fresh) ctx.status = 304;
};

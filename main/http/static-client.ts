import { readdirSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import type { Middleware } from 'koa';
import serve from 'koa-static';
import { HttpError } from './errors.ts';

const www = fileURLToPath(new URL('../../www', import.meta.url));

/** What a page may do: use its own service, and nothing else. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  // Forms are sent by script; should it be missing, an API key must not travel any other way.
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** For every file of a client. */
export const pageHeaders = {
  'Content-Security-Policy': CONTENT_SECURITY_POLICY,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // Names carry no version: a browser keeps its copy, and asks whether it still holds.
  'Cache-Control': 'no-cache',
  Vary: 'Accept-Encoding',
};

/**
 * Serves a browser client to GET and HEAD: the files of its folder below `www` by their path, those of `www/shared`
 * under `/shared/`, and `index.html` at the root. Any other method is refused there. Other paths are left to the next
 * middleware, but for service A, whose client is served at all of them.
 */
export function staticClient(client: 'ticker' | 'tasks'): Middleware[] {
  const fallback = client === 'ticker';
  const own = serve(`${www}/${client}`);
  const shared = serve(www);
  const paths = new Set([
    '/',
    ...files(client).map((file) => `/${file}`),
    ...files('shared').map((f) => `/shared/${f}`),
  ]);

  const serveFile: Middleware = (ctx, next) => {
    const path = paths.has(ctx.path) ? ctx.path : fallback ? '/' : undefined;
    if (path === undefined) return next();
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
      throw new HttpError('methodNotAllowed', { headers: { Allow: 'GET, HEAD' } });
    }
    ctx.path = path;
    ctx.set(pageHeaders);
    return path.startsWith('/shared/') ? shared(ctx, next) : own(ctx, next);
  };
  return [notModified, serveFile];
}

/** Paths of the files in a folder below `www`, without the compressed copies beside them. */
function files(folder: string): string[] {
  return readdirSync(`${www}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.gz'))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(`${www}/${folder}/`.length));
}

/** Answers 304 where the client's copy is as new as the file, which koa-static leaves to others. */
const notModified: Middleware = async (ctx, next) => {
  await next();
  if (ctx.status === 200 && ctx.fresh) ctx.status = 304;
};

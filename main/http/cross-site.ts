import cors from '@koa/cors';
import type { Context, Middleware } from 'koa';
import { HttpError } from './errors.ts';

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

/**
 * Returns middleware that refuses cross-site writes, or all cross-site requests, except from `corsOrigins`. CORS alone
 * would not keep the server from processing a simple POST request.
 */
export function crossSite(options: { corsOrigins: readonly string[]; refused: 'writes' | 'all' }): Middleware[] {
  const origins = new Set(options.corsOrigins);
  const guard: Middleware = (ctx, next) => {
    const isGuarded = options.refused === 'all' || !SAFE_METHODS.has(ctx.method);
    if (isGuarded && isCrossSite(ctx) && !origins.has(ctx.get('Origin'))) throw new HttpError('crossSiteRequest');
    return next();
  };
  if (origins.size === 0) return [guard];
  const allow = cors({
    origin: (ctx) => (origins.has(ctx.get('Origin')) ? ctx.get('Origin') : ''),
    allowMethods: 'GET,HEAD,POST,DELETE',
    exposeHeaders: 'Location,Preference-Applied,Retry-After',
  });
  return [allow, guard];
}

/** Falls back to `Origin`, because browsers send `Sec-Fetch-Site` over plain HTTP only to loopback addresses. */
function isCrossSite(ctx: Context): boolean {
  const site = ctx.get('Sec-Fetch-Site');
  if (site !== '') return site === 'cross-site';
  const origin = ctx.get('Origin');
  return origin !== '' && (!URL.canParse(origin) || new URL(origin).host !== ctx.get('Host').toLowerCase());
}

import cors from '@koa/cors';
import type { Middleware } from 'koa';
import { HttpError } from './errors.ts';

const SAFE_METHODS: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS']);

export interface CrossSiteOptions {
  /** Origins whose pages may send every request and read the answers. */
  corsOrigins: readonly string[];
  /** Requests of other origins that are refused. */
  refused: 'writes' | 'all';
}

/**
 * Refuses cross-site requests of browsers, except for those of `corsOrigins`. A page needs no permission to send a
 * simple POST to another site: CORS only hides the answer. Requests without `Sec-Fetch-Site` are let through, because
 * only browsers send the header.
 */
export function crossSite({ corsOrigins, refused }: CrossSiteOptions): Middleware[] {
  const origins = new Set(corsOrigins);
  const guard: Middleware = (ctx, next) => {
    const isRefused = refused === 'all' || !SAFE_METHODS.has(ctx.method);
    if (isRefused && ctx.get('Sec-Fetch-Site') === 'cross-site' && !origins.has(ctx.get('Origin'))) {
      throw new HttpError('crossSiteRequest');
    }
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

import cors from '@koa/cors';
import type { Context, Middleware } from 'koa';
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
 * simple POST to another site: CORS only hides the answer.
 */
export function crossSite({ corsOrigins, refused }: CrossSiteOptions): Middleware[] {
  const origins = new Set(corsOrigins);
  const guard: Middleware = (ctx, next) => {
    const isRefused = refused === 'all' || !SAFE_METHODS.has(ctx.method);
    if (isRefused && isCrossSite(ctx) && !origins.has(ctx.get('Origin'))) {
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

/**
 * Whether a page of another site sent the request. Browsers omit `Sec-Fetch-Site` for plain HTTP beyond loopback, but send
 * `Origin` with every write. Other clients send neither.
 */
function isCrossSite(ctx: Context): boolean {
  const site = ctx.get('Sec-Fetch-Site');
  if (site !== '') return site === 'cross-site';
  const origin = ctx.get('Origin');
  return origin !== '' && (!URL.canParse(origin) || new URL(origin).host !== ctx.get('Host').toLowerCase());
}

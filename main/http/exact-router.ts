import Router, { type RouterOptions } from '@koa/router';
import type { DefaultState, Middleware } from 'koa';
import { HttpError } from './errors.ts';

/** Creates a router with case-sensitive paths and strict trailing slashes, so each resource has exactly one path. */
export function exactRouter<State = DefaultState>(options: Pick<RouterOptions, 'prefix'> = {}): Router<State> {
  return new Router<State>({ ...options, sensitive: true, strict: true });
}

/**
 * Returns middleware for all methods of a path that have no route of their own: 204 to OPTIONS, otherwise 405, both
 * with an `Allow` header. Must be registered after the other routes of its path.
 *
 * @param supported methods with a route
 */
export function answerOtherMethods(...supported: string[]): Middleware {
  const headers = { Allow: [...supported, 'OPTIONS'].join(', ') };
  return (ctx) => {
    // The CORS middleware has answered every allowed preflight, so this preflight is refused.
    const isPreflight = ctx.get('Access-Control-Request-Method') !== '';
    if (ctx.method !== 'OPTIONS' || isPreflight) throw new HttpError('methodNotAllowed', { headers });
    ctx.set(headers);
    ctx.status = 204;
  };
}

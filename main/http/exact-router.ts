import Router, { type RouterOptions } from '@koa/router';
import type { DefaultState, Middleware } from 'koa';
import { HttpError } from './errors.ts';

/** Creates a router with case-sensitive paths and strict trailing slashes, so each resource has exactly one path. */
export function exactRouter<State = DefaultState>(options: Pick<RouterOptions, 'prefix'> = {}): Router<State> {
  return new Router<State>({ ...options, sensitive: true, strict: true });
}

/**
 * Returns middleware that responds 405 with an `Allow` header. Must be registered after the other routes of its path.
 */
export function refuseOtherMethods(...allowed: string[]): Middleware {
  const headers = { Allow: allowed.join(', ') };
  return () => {
    throw new HttpError('methodNotAllowed', { headers });
  };
}

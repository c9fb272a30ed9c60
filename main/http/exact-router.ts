import Router, { type RouterOptions } from '@koa/router';
import type { DefaultState, Middleware } from 'koa';
import { HttpError } from './errors.ts';

/** Creates a router with case-sensitive paths and strict trailing slashes, so that each resource has exactly one path. */
export function exactRouter<State = DefaultState>(options: Pick<RouterOptions, 'prefix'> = {}): Router<State> {
  return new Router<State>({ ...options, sensitive: true, strict: true });
}

/** Returns a handler for a path's last route, which responds 405 and lists the `allowed` methods in the `Allow` header. */
export function refuseOtherMethods(...allowed: string[]): Middleware {
  const headers = { Allow: allowed.join(', ') };
  return () => {
    throw new HttpError('methodNotAllowed', { headers });
  };
}

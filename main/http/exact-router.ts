import Router, { type RouterOptions } from '@koa/router';
import type { DefaultState } from 'koa';

/** Creates a router with case-sensitive paths and strict trailing slashes, so that each resource has one path. */
export function exactRouter<State = DefaultState>(options: Pick<RouterOptions, 'prefix'> = {}): Router<State> {
  return new Router<State>({ ...options, sensitive: true, strict: true });
}

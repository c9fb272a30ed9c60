import Router, { type RouterOptions } from '@koa/router';
import type { DefaultState } from 'koa';

/** A router whose paths are case-sensitive and strict about trailing slashes, so that each resource has one path. */
export function exactRouter<State = DefaultState>(options: Pick<RouterOptions, 'prefix'> = {}): Router<State> {
  return new Router<State>({ ...options, sensitive: true, strict: true });
}

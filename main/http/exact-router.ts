import Router, { type RouterMiddleware, type RouterOptions } from '@koa/router';
import type { DefaultState, Middleware } from 'koa';
import { HttpError } from './errors.ts';

/** Creates a router with case-sensitive paths and strict trailing slashes, so each resource has exactly one path. */
export function exactRouter<State = DefaultState>(options: Pick<RouterOptions, 'prefix'> = {}): Router<State> {
  return new Router<State>({ ...options, sensitive: true, strict: true });
}

/** Registers the handlers of a path, by their methods. Other methods are answered with 405. */
export function resource<State>(
  router: Router<State>,
  path: string,
  handlers: Partial<Record<'GET' | 'POST' | 'DELETE', RouterMiddleware<State>>>,
): void {
  for (const [method, handler] of Object.entries(handlers)) router.register(path, [method], handler);
  const supported = Object.keys(handlers).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method));
  router.all(path, answerOtherMethods(...supported));
}

/** Returns middleware that answers unsupported methods. Must be registered after the other routes of a path. */
export function answerOtherMethods(...supported: string[]): Middleware {
  const headers = { Allow: [...supported, 'OPTIONS'].join(', ') };
  return (ctx) => {
    // The CORS middleware answers every allowed preflight, so a preflight that reaches this middleware is refused.
    const isPreflight = ctx.get('Access-Control-Request-Method') !== '';
    if (ctx.method !== 'OPTIONS' || isPreflight) throw new HttpError('methodNotAllowed', { headers });
    ctx.set(headers);
    ctx.status = 204;
  };
}

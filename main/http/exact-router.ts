import Router, { type RouterMiddleware } from '@koa/router';
import type { DefaultState, Middleware, ParameterizedContext } from 'koa';
import { nearestNames } from '../../workers/shared/nearest-names.ts';
import { HttpError } from './errors.ts';

export type Handler<State = DefaultState> = RouterMiddleware<State>;

export type Resources<State = DefaultState> = Readonly<
  Record<string, Partial<Record<'GET' | 'POST' | 'PUT' | 'DELETE', Handler<State>>>>
>;

/** Creates a router with case-sensitive paths and strict trailing slashes, so each resource has exactly one path. */
export function exactRouter<State>(): Router<State> {
  return new Router<State>({ sensitive: true, strict: true });
}

/**
 * Returns middleware that passes a request to the handler of its path and method, after `first`, such as CORS. Other
 * methods get 405.
 */
export function router<State>(resources: Resources<State>, first?: Middleware): Middleware {
  const routes = exactRouter<State>();
  for (const [path, handlers] of Object.entries(resources)) {
    if (first !== undefined) routes.all(path, first);
    for (const [method, handler] of Object.entries(handlers)) routes.register(path, [method], handler);
    const supported = Object.keys(handlers).flatMap((method) => (method === 'GET' ? ['GET', 'HEAD'] : method));
    routes.all(path, answerOtherMethods(...supported));
  }
  return routes.routes() as Middleware;
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

/** Returns the parameters of a request's query. @throws {HttpError} if one is not among `names`, or is given twice */
export function queryParameters<Name extends string>(
  { query }: Pick<ParameterizedContext, 'query'>,
  ...names: readonly Name[]
): { readonly [Each in Name]?: string | undefined } {
  for (const [name, value] of Object.entries(query)) {
    if (!names.some((each) => each === name)) {
      const [nearest = names.join(', ')] = nearestNames(name, names);
      throw invalidParameter(name, `is unknown: did you mean ${nearest}?`);
    }
    if (Array.isArray(value)) throw invalidParameter(name, 'must be given once');
  }
  return query as { [Each in Name]?: string };
}

/** Returns whether the parameter `summary` asks for one. @throws {HttpError} if it is neither 0 nor 1 */
export function isSummary(summary = '0'): boolean {
  if (!['0', '1'].includes(summary)) throw invalidParameter('summary', 'must be 0 or 1');
  return summary === '1';
}

export function invalidParameter(parameter: string, detail: string): HttpError {
  return new HttpError('invalidQuery', { fields: { parameter, detail } });
}

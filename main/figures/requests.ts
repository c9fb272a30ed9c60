import type { Context, Middleware } from 'koa';
import { Distribution, DURATIONS } from './distribution.ts';

/** All requests that had the same end. */
export interface RequestSeries {
  method: string;
  /** The router's path, or `*` for what no router took. */
  route: string;
  status: number;
  /** Text of the error, where it was one, and else empty. */
  error: string;
  durations: Distribution;
}

/** More than there are combinations of route, method and error. */
const MAX_SERIES = 500;

/** What was asked of a service, what became of it, and how long that took. */
export class RequestFigures {
  readonly #series = new Map<string, RequestSeries>();

  note({ method, route, status, error }: Omit<RequestSeries, 'durations'>, seconds: number): void {
    const key = `${route} ${method} ${status} ${error}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      if (this.#series.size >= MAX_SERIES) return;
      series = { method, route, status, error, durations: new Distribution(DURATIONS) };
      this.#series.set(key, series);
    }
    series.durations.observe(seconds);
  }

  series(): IterableIterator<RequestSeries> {
    return this.#series.values();
  }
}

/** Of others there are dozens, and all are refused. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Outermost middleware of an app: notes each request once its answer is made. */
export function noteRequests(figures: RequestFigures): Middleware {
  return async (ctx, next) => {
    const from = performance.now();
    await next();
    const { _matchedRoute: route = '*' } = ctx as Context & { _matchedRoute?: string };
    // What takes the connection over answers by itself.
    const status = ctx.respond === false && !ctx.headerSent ? 101 : ctx.status;
    const method = methods.has(ctx.method) ? ctx.method : '_OTHER';
    figures.note({ method, route, status, error: ctx.state.error ?? '' }, (performance.now() - from) / 1000);
  };
}

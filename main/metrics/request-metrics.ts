import type { Context, Middleware } from 'koa';
import { DURATION_BOUNDS, Histogram } from '../../workers/shared/histogram.ts';

export interface RequestSeries {
  method: string;
  /** Path pattern of the route, or `*` if no route matched. */
  route: string;
  status: number;
  /** Error text of the response, or an empty string if the request succeeded. */
  error: string;
  durations: Histogram;
}

/** Maximum number of combinations of label values. Requests with further combinations are not counted. */
const MAX_SERIES = 500;

export class RequestMetrics {
  readonly #series = new Map<string, RequestSeries>();

  record({ method, route, status, error }: Omit<RequestSeries, 'durations'>, seconds: number): void {
    const key = `${route} ${method} ${status} ${error}`;
    let series = this.#series.get(key);
    if (series === undefined) {
      if (this.#series.size >= MAX_SERIES) return;
      series = { method, route, status, error, durations: new Histogram(DURATION_BOUNDS) };
      this.#series.set(key, series);
    }
    series.durations.observe(seconds);
  }

  count(matches: (series: RequestSeries) => boolean): number {
    return [...this.series()].filter(matches).reduce((sum, { durations }) => sum + durations.cumulative().count, 0);
  }

  series(): IterableIterator<RequestSeries> {
    return this.#series.values();
  }
}

/** Other methods are counted as `_OTHER`, to limit the number of series. */
const methods = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']);

/** Status of a request whose client disconnected before the response began, as in nginx. */
export const CLIENT_CLOSED_REQUEST = 499;

/** Creates an app's outermost middleware, which records a request when its response is ready or begins to stream. */
export function recordRequests(metrics: RequestMetrics): Middleware {
  return async (ctx, next) => {
    const startedAt = performance.now();
    await next();
    const { _matchedRoute: route = '*' } = ctx as Context & { _matchedRoute?: string };
    const isUnanswered = ctx.respond === false && !ctx.headerSent && ctx.res.closed;
    const status = isUnanswered ? CLIENT_CLOSED_REQUEST : ctx.status;
    const method = methods.has(ctx.method) ? ctx.method : '_OTHER';
    metrics.record({ method, route, status, error: ctx.state.error ?? '' }, (performance.now() - startedAt) / 1000);
  };
}

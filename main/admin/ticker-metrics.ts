import { labelled, type MetricsTable } from '../metrics/metrics-table.ts';
import type { RequestSeries } from '../metrics/request-metrics.ts';
import type { TickerService } from '../ticker/service.ts';

export function tickerMetrics({ relay, ticker, tokens, requests }: TickerService['metrics']): MetricsTable {
  const { metrics } = relay;
  const isExchange = ({ route, method }: RequestSeries) => route === '/auth/token' && method === 'POST';
  const issued = () => requests.count((series) => isExchange(series) && series.status === 200);
  const refused = () =>
    [...requests.series()]
      .filter((series) => isExchange(series) && series.error !== '')
      .map(({ error, durations }) => [{ reason: error }, durations.cumulative().count] as const);
  const { source } = ticker;
  const failures = () =>
    labelled('reason', Object.entries({ error: source.counts.failed, stalled: source.counts.stalled }));
  return {
    gauge: {
      ticker_websocket_connections: ['Open WebSocket connections.', () => relay.size],
      ticker_subscriptions: ['Handlers subscribed to the ticker.', () => ticker.subscriptions],
      ticker_price_source_failing: [
        'Whether the price source is failing: 1 or 0.',
        () => (source.problem === undefined ? 0 : 1),
      ],
      auth_tokens_live: ['Valid tokens.', () => tokens.store.size],
      auth_tokens_limit: ['Limit of `auth_tokens_live`.', () => tokens.store.maxTokens],
    },
    counter: {
      ticker_frames_sent_total: ['Text frames written to sockets.', () => metrics.framesSent],
      ticker_frames_skipped_total: ['Ticks not sent to slow consumers.', () => metrics.framesSkipped],
      ticker_websocket_upgrades_total: ['Handshakes, by outcome.', () => labelled('outcome', metrics.upgrades)],
      ticker_websocket_closes_total: ['Closed connections, by close code.', () => labelled('code', metrics.closes)],
      ticker_thread_restarts_total: ['Restarts of the ticker thread.', () => ticker.restarts],
      ticker_price_source_failures_total: ['Failed and stalled calls to the price source, by reason.', failures],
      ticker_prices_refused_total: [
        'Prices refused because they were not positive numbers, or because the number of prices was wrong.',
        () => source.counts.refused,
      ],
      auth_tokens_issued_total: ['API keys exchanged for a token.', issued],
      auth_tokens_refused_total: ['Refused API key exchanges, by error.', refused],
    },
    histogram: {
      ticker_tick_lateness_seconds: [
        'Time from when a tick was due until it was written to the last socket.',
        () => [[{}, [ticker.lateness]]],
      ],
    },
  };
}

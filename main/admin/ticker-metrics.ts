import { labelled, type MetricsRegistry } from '../metrics/registry.ts';
import type { RequestSeries } from '../metrics/request-metrics.ts';
import type { TickerMetrics } from '../ticker/service.ts';

export function registerTickerMetrics(
  registry: MetricsRegistry,
  { relay, ticker, tokens, requests }: TickerMetrics,
): void {
  const { metrics } = relay;
  registry.gauge('ticker_websocket_connections', 'Open WebSocket connections.', () => relay.size);
  registry.gauge('ticker_subscriptions', 'Handlers that are subscribed to the ticker.', () => ticker.subscriptions);
  registry.counter('ticker_frames_sent_total', 'Text frames handed to sockets.', () => metrics.framesSent);
  registry.counter(
    'ticker_frames_skipped_total',
    'Ticks that were not sent to a slow consumer.',
    () => metrics.framesSkipped,
  );
  registry.histogram(
    'ticker_tick_lateness_seconds',
    'From the due time of a tick until it was written to the last socket.',
    () => [[{}, [ticker.lateness]]],
  );
  registry.counter('ticker_websocket_upgrades_total', 'Handshakes, by outcome.', () =>
    labelled('outcome', metrics.upgrades.entries()),
  );
  registry.counter('ticker_websocket_closes_total', 'Closed connections, by close code.', () =>
    labelled('code', metrics.closes.entries()),
  );
  registry.counter('ticker_thread_restarts_total', 'Restarts of the ticker thread.', () => ticker.restarts);

  const isExchange = ({ route, method }: RequestSeries) => route === '/auth/token' && method === 'POST';
  registry.counter('auth_tokens_issued_total', 'API keys exchanged for a token.', () =>
    requests.count((series) => isExchange(series) && series.status === 200),
  );
  registry.counter('auth_tokens_refused_total', 'Refused exchanges of an API key, by error.', () =>
    [...requests.series()]
      .filter((series) => isExchange(series) && series.error !== '')
      .map(({ error, durations }) => [{ reason: error }, durations.cumulative().count] as const),
  );
  registry.gauge('auth_tokens_live', 'Valid tokens.', () => tokens.store.size);
  registry.gauge('auth_tokens_limit', 'Limit of `auth_tokens_live`.', () => tokens.store.maxTokens);
}

import type { TickerFigures } from '../ticker/service.ts';
import { labelled, type Metrics } from './metrics.ts';

/** Registers the metrics of service A. */
export function tickerMetrics(metrics: Metrics, { relay, ticker, tokens, requests }: TickerFigures): void {
  const { figures } = relay;
  metrics.gauge('ticker_websocket_connections', 'Open WebSocket connections.', () => relay.size);
  metrics.gauge('ticker_subscriptions', 'Handlers that are subscribed to the ticker.', () => ticker.subscriptions);
  metrics.counter('ticker_frames_sent_total', 'Text frames handed to sockets.', () => figures.framesSent);
  metrics.counter(
    'ticker_frames_skipped_total',
    'Ticks that were not sent to a slow consumer.',
    () => figures.framesSkipped,
  );
  metrics.histogram(
    'ticker_tick_lateness_seconds',
    'From the due time of a tick until it was written to the last socket.',
    () => [[{}, [ticker.lateness]]],
  );
  metrics.counter('ticker_websocket_upgrades_total', 'Handshakes, by outcome.', () =>
    labelled('outcome', figures.upgrades.entries()),
  );
  metrics.counter('ticker_websocket_closes_total', 'Closed connections, by close code.', () =>
    labelled('code', figures.closes.entries()),
  );
  metrics.counter('ticker_thread_restarts_total', 'Restarts of the ticker thread.', () => ticker.restarts);

  const exchanges = () =>
    [...requests.series()].filter(({ route, method }) => route === '/auth/token' && method === 'POST');
  metrics.counter('auth_tokens_issued_total', 'API keys exchanged for a token.', () =>
    exchanges()
      .filter(({ status }) => status === 200)
      .reduce((sum, { durations }) => sum + durations.cumulative().count, 0),
  );
  metrics.counter('auth_tokens_refused_total', 'Refused exchanges of an API key, by error.', () =>
    labelled(
      'reason',
      exchanges()
        .filter(({ error }) => error !== '')
        .map(({ error, durations }) => [error, durations.cumulative().count] as const),
    ),
  );
  metrics.gauge('auth_tokens_live', 'Valid tokens.', () => tokens.store.size);
  metrics.gauge('auth_tokens_limit', 'Limit of `auth_tokens_live`.', () => tokens.store.maxTokens);
}

import type { TickerFigures } from '../ticker/service.ts';
import { labelled, type Metrics } from './metrics.ts';

/** What service A counts. */
export function tickerMetrics(metrics: Metrics, { relay, ticker, tokens, requests }: TickerFigures): void {
  const { figures } = relay;
  metrics.gauge('ticker_websocket_connections', 'WebSocket connections that are open.', () => relay.size);
  metrics.gauge('ticker_subscriptions', 'Handlers that are subscribed to the ticker.', () => ticker.subscriptions);
  metrics.counter('ticker_frames_sent_total', 'Text frames handed to sockets.', () => figures.framesSent);
  metrics.counter('ticker_frames_skipped_total', 'Ticks that a slow client did not get.', () => figures.framesSkipped);
  metrics.histogram(
    'ticker_tick_lateness_seconds',
    'From the moment when a tick was due until the last socket had it.',
    () => [[{}, [ticker.lateness]]],
  );
  metrics.counter('ticker_websocket_upgrades_total', 'Handshakes, by what became of them.', () =>
    labelled('outcome', figures.upgrades.entries()),
  );
  metrics.counter('ticker_websocket_closes_total', 'Connections that ended, by close code.', () =>
    labelled('code', figures.closes.entries()),
  );
  metrics.counter('ticker_thread_restarts_total', 'How often the thread of the ticker died.', () => ticker.restarts);

  const exchanges = () =>
    [...requests.series()].filter(({ route, method }) => route === '/auth/token' && method === 'POST');
  metrics.counter('auth_tokens_issued_total', 'API keys exchanged for a token.', () =>
    exchanges()
      .filter(({ status }) => status === 200)
      .reduce((sum, { durations }) => sum + durations.cumulative().count, 0),
  );
  metrics.counter('auth_tokens_refused_total', 'Exchanges that were refused, by error.', () =>
    labelled(
      'reason',
      exchanges()
        .filter(({ error }) => error !== '')
        .map(({ error, durations }) => [error, durations.cumulative().count] as const),
    ),
  );
  metrics.gauge('auth_tokens_live', 'Tokens that are good.', () => tokens.store.size);
  metrics.gauge('auth_tokens_limit', 'Most tokens that the token store holds.', () => tokens.store.maxTokens);
}

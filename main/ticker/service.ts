import Koa, { type Middleware } from 'koa';
import type { Awaitable } from '../../db/task-rows.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { type Config, defaults } from '../config.ts';
import { addressShare, type ConnectionShares } from '../http/descriptor-shares.ts';
import { jsonErrors, logLateError } from '../http/json-reply.ts';
import { type Listener, listen } from '../http/listener.ts';
import { RateLimit } from '../http/rate-limit.ts';
import type { Checks } from '../http/readiness.ts';
import { staticClient } from '../http/static-files.ts';
import type { Log } from '../log/log.ts';
import { RequestMetrics, recordRequests } from '../metrics/request-metrics.ts';
import { type ApiKeyStore, type AuthRouterOptions, authRouter } from './auth.ts';
import { createHandler, HandlersByToken, TICKER } from './connection-handler.ts';
import { PidRegistry } from './pid-registry.ts';
import { loadScope, userPolicyFile } from './policy.ts';
import { type PricesRouterOptions, pricesRouter } from './prices.ts';
import { Ticker, type TickFeed } from './ticker.ts';
import type { TokenStore } from './token-store.ts';
import { Tokens } from './tokens.ts';
import { Relay, SOCKET_BUFFER } from './ws-relay.ts';
import { type WsRouterOptions, wsRouter } from './ws-router.ts';

export interface TickerService {
  listener: Listener;
  demoApiKey: string;
  metrics: {
    requests: RequestMetrics;
    relay: Pick<Relay, 'size' | 'metrics'>;
    ticker: Pick<Ticker, 'subscriptions' | 'restarts' | 'lateness' | 'loopDelays' | 'source'>;
    tokens: Pick<Tokens, 'store'>;
  };
  checks: Checks;
  /** Checks that only warn: a problem does not make the service unready. */
  warnings: Checks;
  tokens: Pick<Tokens, 'verify' | 'isLive'>;
  /** Routes of `/auth/token` for the task service's listener, under the same rate limit as on the ticker's listener. */
  tokenRoutes: Middleware;
  /** Stops the service. Terminates connections at `deadline`. Closes the token store once `tokensUnused` resolves. */
  stop(deadline: Promise<void>, tokensUnused?: Promise<unknown>): Promise<void>;
}

export interface TickerBackend {
  apiKeys: ApiKeyStore;
  openTokenStore(): Awaitable<TokenStore>;
  /** Returns undefined if each node makes its own ticks. */
  openTickFeed(): Awaitable<TickFeed | undefined>;
}

const TICK_TIMEOUT_MS = 3_000;

type TickerSettings = Config['ticker'];

/** Starts the ticker service. @throws {Error} if a part of the service cannot be started */
export async function startTicker(
  { http, tokens: tokenSettings, ticker: settings }: Pick<Config, 'http' | 'tokens' | 'ticker'>,
  backend: TickerBackend,
  shares: ConnectionShares,
  clock: Clock,
  log: Log,
): Promise<TickerService> {
  await using startedParts = new AsyncDisposableStack();
  const { apiKeys } = backend;
  const { apiKey, created } = await apiKeys.ensureDemoUser(Math.floor(clock.now() / 1000));
  log.info({ api_key: apiKey }, created ? 'demo API key created' : 'demo API key exists');

  const actors = new PidRegistry();
  const handlersByToken = new HandlersByToken(actors);
  const tokens = new Tokens({
    key: tokenSettings.key,
    lifetimeSeconds: tokenSettings.lifetimeSeconds,
    store: await backend.openTokenStore(),
    clock,
    onEnd(id, end) {
      if (end === 'token revoked' || tokenSettings.expiryCloses) handlersByToken.end(id, end);
    },
  });
  startedParts.defer(() => tokens.close());
  const { maxConnectionsPerAddress, maxMessagesPerSecond } = settings;
  const maxConnections = connectionLimit(settings, shares, log);
  const relay = new Relay(actors, { maxConnections, maxConnectionsPerAddress, maxMessagesPerSecond }, clock);
  startedParts.defer(() => relay.close(Promise.resolve()));
  const feed = await backend.openTickFeed();
  startedParts.defer(() => feed?.close());
  const ticker = new Ticker({
    ...settings,
    source: settings.priceSource,
    actors,
    broadcast: (clients, message) => relay.broadcast(clients, message),
    feed,
    clock,
    log,
  });
  actors.register(TICKER, ticker);
  startedParts.defer(() => ticker.stop());
  await ticker.start();
  const requests = new RequestMetrics();
  const options: TickerAppOptions = {
    requests,
    apiKeys,
    tokens,
    userScope: await loadScope(userPolicyFile, log),
    rateLimit: new RateLimit({ perMinute: tokenSettings.requestsPerMinute }),
    trustProxy: http.trustProxy,
    handlersByToken,
    log,
    relay,
    history: ticker.history,
    clock,
    createHandler: (actorId) => createHandler(actors, actorId),
  };
  const handle = (await createTickerApp(options)).callback();
  const listener = await listen(handle, {
    host: http.host,
    port: settings.port,
    allowedHosts: http.allowedHosts,
    reusePort: http.reusePort,
    highWaterMark: SOCKET_BUFFER,
    maxConnections: shares.ticker,
    addressShare: addressShare(http.trustProxy),
  });
  listener.server.on('upgrade', relay.upgradeListener(handle, listener.release));
  startedParts.move();
  return {
    listener,
    demoApiKey: apiKey,
    metrics: { requests, relay, ticker, tokens },
    checks: { ticker: () => checkTicks(ticker, settings.intervalMs, clock.now(), feed) },
    warnings: {
      token_store: () => checkTokenStore(tokens.store),
      ...(settings.priceSource !== undefined && { price_source: () => ticker.source.problem }),
    },
    tokens,
    tokenRoutes: authRouter(options).routes() as Middleware,
    async stop(deadline, tokensUnused) {
      await Promise.all([listener.close(deadline), relay.close(deadline)]);
      await ticker.stop();
      await feed?.close();
      await tokensUnused;
      await tokens.close();
    },
  };
}

/** Returns the maximum number of connections: `MAX_CONNECTIONS`, or fewer if the limit on open files is too low for it. */
function connectionLimit({ maxConnections }: TickerSettings, shares: ConnectionShares, log: Log): number {
  const limit = Math.min(maxConnections, shares.webSockets);
  // The default of `MAX_CONNECTIONS` is only an upper bound, so falling below the default is not logged.
  if (limit < maxConnections && maxConnections !== defaults.ticker.maxConnections) {
    const fields = { openFiles: shares.openFiles, maxConnections: limit };
    log.info(fields, 'the limit on open files allows fewer connections than MAX_CONNECTIONS');
  }
  return limit;
}

function checkTokenStore({ size, maxTokens }: TokenStore): string | undefined {
  return size < maxTokens ? undefined : `the token store holds ${size} tokens and takes no more`;
}

/** Returns a problem before the first tick, and after three tick intervals or {@link TICK_TIMEOUT_MS} without another. */
function checkTicks(
  { lastDue, refusesTicks }: Pick<Ticker, 'lastDue' | 'refusesTicks'>,
  intervalMs: number,
  now: number,
  feed?: Pick<TickFeed, 'isLeader'>,
): string | undefined {
  const elapsedMs = now - lastDue;
  if (elapsedMs < Math.max(TICK_TIMEOUT_MS, 3 * intervalMs)) return undefined;
  if (refusesTicks)
    return 'the ticks of the leader have other symbols: set TICKER_SYMBOLS to the same value on all nodes';
  if (lastDue === 0) return 'no tick yet';
  const seconds = (elapsedMs / 1000).toFixed(1);
  return feed?.isLeader === false
    ? `no tick from the leader for ${seconds} s`
    : `the last tick was due ${seconds} s ago`;
}

export interface TickerAppOptions extends AuthRouterOptions, WsRouterOptions, PricesRouterOptions {
  tokens: AuthRouterOptions['tokens'] & WsRouterOptions['tokens'] & PricesRouterOptions['tokens'];
  relay: Pick<Relay, 'completeHandshake' | 'isHandshake' | 'acquire'>;
  requests: RequestMetrics;
  log: Log;
  trustProxy: number;
}

/** Creates the Koa app of the ticker service. @throws {Error} if a file of the browser client cannot be read */
export async function createTickerApp(options: TickerAppOptions): Promise<Koa> {
  const app = new Koa();
  app.on('error', logLateError(options.log));
  app.proxy = options.trustProxy > 0;
  app.maxIpsCount = options.trustProxy;
  app.use(recordRequests(options.requests));
  app.use(options.relay.completeHandshake);
  app.use(jsonErrors(options.log));
  app.use(wsRouter(options).routes());
  app.use(authRouter(options).routes());
  app.use(pricesRouter(options).routes());
  app.use(await staticClient('ticker'));
  return app;
}

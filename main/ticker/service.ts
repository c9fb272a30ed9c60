import { randomBytes } from 'node:crypto';
import Koa from 'koa';
import type { ApiKeyOwner } from '../../db/api-keys.ts';
import type { Awaitable } from '../../db/task-rows.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { type Config, defaults } from '../config.ts';
import type { ConnectionShares } from '../http/connection-limiter.ts';
import { jsonErrors, logLateError } from '../http/json-reply.ts';
import { listen } from '../http/listener.ts';
import { rateLimit } from '../http/rate-limit.ts';
import { staticClient } from '../http/static-files.ts';
import type { Log } from '../log/log.ts';
import { RequestMetrics, recordRequests } from '../metrics/request-metrics.ts';
import { type ApiKeyStore, type AuthOptions, authRoutes, issueToken } from './auth.ts';
import { createHandler, createHandlersByToken, TICKER } from './connection-handler.ts';
import { localPrices } from './local-prices.ts';
import { PidRegistry } from './pid-registry.ts';
import type { ScopeOf } from './policy.ts';
import { type KeptPricesOptions, keepPrices, type PricesOptions, pricesRoutes } from './prices.ts';
import { Ticker, type TickFeed } from './ticker.ts';
import type { KeptTokens, TokenStore } from './token-store.ts';
import { Tokens } from './tokens.ts';
import { Relay, SOCKET_BUFFER } from './ws-relay.ts';
import { type WsOptions, wsRoutes } from './ws-router.ts';

export type TickerService = Awaited<ReturnType<typeof startTicker>>;

export interface TickerBackend {
  apiKeys: ApiKeyStore;
  openTokenStore(): Awaitable<TokenStore>;
  /** Tokens that an orderly stop has kept, and the present API keys. Undefined if the token store outlives the process. */
  lastTokens?: { take(): Awaitable<KeptTokens & { apiKeys: string[] }>; keep(key: string | undefined): void };
  store: KeptPricesOptions['store'];
  /** Returns undefined if each node makes its own ticks. */
  openTickFeed(): Awaitable<TickFeed | undefined>;
}

const TICK_TIMEOUT_MS = 3_000;

/** Starts the ticker service. @throws {Error} if a part of the service cannot be started */
export async function startTicker(
  { http, tokens: tokenSettings, ticker: settings }: Pick<Config, 'http' | 'tokens' | 'ticker'>,
  backend: TickerBackend,
  scopeOf: ScopeOf,
  shares: ConnectionShares,
  clock: Clock,
  log: Log,
) {
  await using startedParts = new AsyncDisposableStack();
  const { apiKeys } = backend;
  const { apiKey, created } = await apiKeys.ensureDemoUser(Math.floor(clock.now() / 1000));
  log.info({ api_key: apiKey }, created ? 'demo API key created' : 'demo API key exists');

  const actors = new PidRegistry();
  const handlersByToken = createHandlersByToken(actors);
  const last = await backend.lastTokens?.take();
  const key = tokenSettings.key ?? last?.key ?? randomBytes(64).toString('base64');
  const tokens = new Tokens({
    ...tokenSettings,
    key,
    store: await backend.openTokenStore(),
    clock,
    onEnd(id, end) {
      if (end === 'token revoked' || tokenSettings.expiryCloses) handlersByToken.end(id, end);
    },
  });
  const closeTokens = () => {
    backend.lastTokens?.keep(tokenSettings.key === undefined ? key : undefined);
    return tokens.store.close();
  };
  startedParts.defer(closeTokens);
  if (last !== undefined) await tokens.restore(last.records, last.apiKeys);
  const relay = new Relay(actors, { ...settings, maxConnections: connectionLimit(settings, shares, log) }, clock);
  startedParts.defer(() => relay.close(Promise.resolve()));
  const feed = await backend.openTickFeed();
  startedParts.defer(() => feed?.close());
  const ticker = new Ticker({
    ...settings,
    source: settings.priceSource,
    actors,
    broadcast: (clients, message) => relay.broadcast(clients, message),
    replay: (client, messages, seq) => relay.replay(client, messages, seq),
    feed,
    clock,
    log,
  });
  actors.register(TICKER, ticker);
  startedParts.defer(() => ticker.stop());
  await ticker.start();
  const isLeader = () => feed?.isLeader ?? true;
  const keptPrices = await keepPrices({ history: ticker.history, store: backend.store, isLeader, clock, log });
  startedParts.defer(() => keptPrices.stop());
  const requests = new RequestMetrics();
  const options: TickerAppOptions = {
    ...{ requests, apiKeys, tokens, scopeOf, handlersByToken, relay, clock, log },
    rateLimit: rateLimit({ perMinute: tokenSettings.requestsPerMinute }),
    trustProxy: http.trustProxy,
    history: ticker.history,
    createHandler: (actorId) => createHandler(actors, actorId, ticker.numbered),
  };
  const handle = (await createTickerApp(options)).callback();
  const { port } = settings;
  const limits = { highWaterMark: SOCKET_BUFFER, maxConnections: shares.ticker };
  const listener = port === undefined ? undefined : await listen(handle, { ...http, ...limits, port });
  listener?.server.on('upgrade', relay.upgradeListener(handle, listener.release));
  const prices = localPrices(ticker, settings.symbols, clock);
  startedParts.move();
  return {
    listener,
    demoApiKey: apiKey,
    metrics: { requests, relay, ticker, tokens },
    checks: { ticker: () => checkTicks(ticker, settings.intervalMs, clock.now(), feed) },
    /** Checks that only warn: a problem does not make the service unready. */
    warnings: {
      token_store: () => checkTokenStore(tokens.store),
      ...(settings.priceSource !== undefined && { price_source: () => ticker.source.problem }),
    },
    tokens,
    prices,
    /** Issues a token for a user of this process. @throws {HttpError} */
    async issueToken(user: ApiKeyOwner): Promise<string> {
      const scope = scopeOf(user.role);
      if (scope.length === 0) throw new RangeError(`the role ${user.role} has no policy`);
      return issueToken(tokens, { ...user, apiKey: undefined }, scope, 'local');
    },
    /** Routes of `/auth/token` for the task service's listener, under the same rate limit as on the ticker's listener. */
    tokenRoutes: authRoutes(options),
    /** Stops the service. Terminates connections at `deadline`. Closes the token store once `tokensUnused` resolves. */
    async stop(deadline: Promise<void>, tokensUnused?: Promise<unknown>): Promise<void> {
      prices.close();
      await Promise.all([listener?.close(deadline), relay.close(deadline)]);
      await keptPrices.stop();
      await ticker.stop();
      await feed?.close();
      await tokensUnused;
      await closeTokens();
    },
  };
}

/** Returns the maximum number of connections: `MAX_CONNECTIONS`, or fewer if the limit on open files is too low for it. */
function connectionLimit({ maxConnections }: Config['ticker'], shares: ConnectionShares, log: Log): number {
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
  { lastDue, refusesTicks }: Ticker,
  intervalMs: number,
  now: number,
  feed?: TickFeed,
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

export interface TickerAppOptions extends AuthOptions, PricesOptions, WsOptions {
  tokens: AuthOptions['tokens'] & WsOptions['tokens'];
  relay: Pick<Relay, 'completeHandshake' | 'acquire'>;
  requests: RequestMetrics;
  trustProxy: number;
  log: Log;
}

/** Creates the Koa app of the ticker service. @throws {Error} if a file of the browser client cannot be read */
export async function createTickerApp(options: TickerAppOptions): Promise<Koa> {
  const { trustProxy } = options;
  const app = new Koa({ proxy: trustProxy > 0, maxIpsCount: trustProxy });
  app.on('error', logLateError(options.log));
  app.use(recordRequests(options.requests));
  app.use(options.relay.completeHandshake);
  app.use(jsonErrors(options.log));
  app.use(wsRoutes(options));
  app.use(authRoutes(options));
  app.use(pricesRoutes(options));
  app.use(await staticClient('ticker'));
  return app;
}

import type { Middleware } from 'koa';
import type { Awaitable } from '../awaitable.ts';
import type { Config } from '../config.ts';
import type { Checks } from '../health-check.ts';
import { addressShare, type ConnectionShares } from '../http/descriptor-shares.ts';
import { type Listener, listen } from '../http/listener.ts';
import { RateLimit } from '../http/rate-limit.ts';
import type { Log } from '../log.ts';
import { RequestMetrics } from '../metrics/request-metrics.ts';
import { createTickerApp, type TickerAppOptions } from './app.ts';
import { type ApiKeyStore, authRouter } from './auth-router.ts';
import { createHandler, TICKER } from './handler.ts';
import { HandlersByToken } from './handlers-by-token.ts';
import { PidRegistry } from './pid-registry.ts';
import { loadScope, userPolicyFile } from './policy.ts';
import { Relay, SOCKET_BUFFER } from './relay.ts';
import type { TickFeed } from './tick-feed.ts';
import { Ticker } from './ticker.ts';
import type { TokenStore } from './token-store.ts';
import { Tokens } from './tokens.ts';

export interface TickerService {
  listener: Listener;
  metrics: TickerMetrics;
  /** Readiness checks of service A by name. */
  checks: Checks;
  /** Checks by name whose problems are shown as warnings and do not make the service unready. */
  warnings: Checks;
  tokens: Pick<Tokens, 'verify' | 'isLive'>;
  /** Routes of `/auth/token` for the listener of service B. They share the rate limit with service A's. */
  tokenRoutes: Middleware;
  /** Stops service A. Terminates connections that are open at `deadline`. Closes the token store after `tokensUnused`. */
  stop(deadline: Promise<void>, tokensUnused?: Promise<unknown>): Promise<void>;
}

/** Sources of service A's metrics. */
export interface TickerMetrics {
  requests: RequestMetrics;
  relay: Pick<Relay, 'size' | 'metrics'>;
  ticker: Pick<Ticker, 'subscriptions' | 'restarts' | 'lateness' | 'loopDelays'>;
  tokens: Pick<Tokens, 'store'>;
}

/** The part of the backend that service A needs. */
export interface TickerBackend {
  apiKeys: ApiKeyStore;
  openTokenStore(): Awaitable<TokenStore>;
  /** Opens the feed that sends the leader's ticks to the other nodes. @returns undefined if each node makes its own ticks */
  openTickFeed(): Awaitable<TickFeed | undefined>;
}

const TICK_TIMEOUT_MS = 3_000;

/** Starts service A. @throws {Error} if a part of the service cannot start */
export async function startTicker(
  config: Config,
  backend: TickerBackend,
  shares: ConnectionShares,
  log: Log,
): Promise<TickerService> {
  const { apiKeys } = backend;
  const { apiKey, created } = await apiKeys.ensureDemoUser(Math.floor(Date.now() / 1000));
  log.info({ api_key: apiKey }, created ? 'demo API key created' : 'demo API key exists');

  const processes = new PidRegistry();
  const holders = new HandlersByToken(processes);
  const tokens = await Tokens.create({
    key: config.tokenKey,
    lifetimeSeconds: config.tokenLifetimeSeconds,
    store: await backend.openTokenStore(),
    onEnd(id, end) {
      if (end === 'token revoked' || config.tokenExpiryCloses) holders.end(id, end);
    },
  });
  const maxConnections = Math.min(config.maxConnections, shares.webSockets);
  if (maxConnections < config.maxConnections) {
    const { openFiles } = shares;
    log.info({ openFiles, maxConnections }, 'the limit of open files allows fewer connections than MAX_CONNECTIONS');
  }
  const { maxConnectionsPerAddress, maxMessagesPerSecond } = config;
  const relay = new Relay(processes, { maxConnections, maxConnectionsPerAddress, maxMessagesPerSecond });
  const feed = await backend.openTickFeed();
  const ticker = new Ticker({
    intervalMs: config.tickIntervalMs,
    seed: config.tickerSeed,
    processes,
    broadcast: (clients, message) => relay.broadcast(clients, message),
    feed,
    log,
  });
  processes.register(TICKER, ticker);
  const requests = new RequestMetrics();
  const release = async () => {
    await ticker.stop();
    await feed?.close();
  };

  try {
    await ticker.start();
    const options: TickerAppOptions = {
      requests,
      apiKeys,
      tokens,
      userScope: await loadScope(userPolicyFile, log),
      rateLimit: new RateLimit({ perMinute: config.tokenRequestsPerMinute }),
      trustProxy: config.trustProxy,
      holders,
      log,
      relay,
      createHandler: (actorId) => createHandler(processes, actorId),
    };
    const handle = (await createTickerApp(options)).callback();
    const listener = await listen(handle, {
      host: config.host,
      port: config.tickerPort,
      allowedHosts: config.allowedHosts,
      reusePort: config.reusePort,
      highWaterMark: SOCKET_BUFFER,
      maxConnections: shares.ticker,
      addressShare: addressShare(config.trustProxy),
    });
    listener.server.on('upgrade', relay.upgradeListener(handle, listener.release));
    return {
      listener,
      metrics: { requests, relay, ticker, tokens },
      checks: { ticker: () => checkTicks(ticker.lastDue, config.tickIntervalMs, feed) },
      warnings: { token_store: () => checkTokenStore(tokens.store) },
      tokens,
      tokenRoutes: authRouter(options).routes() as Middleware,
      async stop(deadline, tokensUnused) {
        await Promise.all([listener.close(deadline), relay.close(deadline)]);
        await release();
        await tokensUnused;
        await tokens.close();
      },
    };
  } catch (error) {
    await relay.close(Promise.resolve());
    await release();
    await tokens.close();
    throw error;
  }
}

function checkTokenStore({ size, maxTokens }: TokenStore): string | undefined {
  return size < maxTokens ? undefined : `the token store holds ${size} tokens and takes no more`;
}

/** Readiness check: returns a problem after three intervals without a tick, but not before {@link TICK_TIMEOUT_MS}. */
function checkTicks(lastDue: number, intervalMs: number, feed?: Pick<TickFeed, 'isLeader'>): string | undefined {
  const elapsedMs = Date.now() - lastDue;
  if (elapsedMs < Math.max(TICK_TIMEOUT_MS, 3 * intervalMs)) return undefined;
  if (lastDue === 0) return 'no tick yet';
  const seconds = (elapsedMs / 1000).toFixed(1);
  return feed?.isLeader === false
    ? `no tick from the leader for ${seconds} s`
    : `the last tick was due ${seconds} s ago`;
}

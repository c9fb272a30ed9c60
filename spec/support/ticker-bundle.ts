import { join } from 'node:path';
import { ApiKeys } from '../../db/sqlite/api-keys.ts';
import { Database } from '../../db/sqlite/database.ts';
import { migrate } from '../../db/sqlite/migrate.ts';
import { defaults } from '../../main/config.ts';
import type { Timeouts } from '../../main/http/listener.ts';
import { RateLimit } from '../../main/http/rate-limit.ts';
import { RequestMetrics } from '../../main/metrics/request-metrics.ts';
import { createTickerApp, type TickerAppOptions } from '../../main/ticker/app.ts';
import { createHandler, TICKER } from '../../main/ticker/handler.ts';
import { HandlersByToken } from '../../main/ticker/handlers-by-token.ts';
import { MemoryTokenStore } from '../../main/ticker/memory-token-store.ts';
import { PidRegistry } from '../../main/ticker/pid-registry.ts';
import { loadPolicy, loadScope, userPolicyFile } from '../../main/ticker/policy.ts';
import { PriceHistory } from '../../main/ticker/price-history.ts';
import { Ticker } from '../../main/ticker/ticker.ts';
import type { TokenStore } from '../../main/ticker/token-store.ts';
import { Tokens } from '../../main/ticker/tokens.ts';
import { Relay, type RelayLimits, SOCKET_BUFFER } from '../../main/ticker/ws-relay.ts';
import { defaultSymbols } from '../../workers/symbols.ts';
import { afterTest, temporaryFolder } from './cleanup.ts';
import { holdToContract } from './contract-watch.ts';
import { type CapturedLog, captureLog } from './log.ts';
import { Recorder } from './recorder.ts';
import { serve, type TestServer } from './server.ts';

export interface TickerBundleOptions {
  lifetimeSeconds?: number;
  maxTokens?: number;
  maxTokensPerKey?: number;
  /** Token store and key shared with other nodes; by default an in-memory store and a random key. */
  shared?: { store: TokenStore; key: string };
  userPolicy?: URL;
  /** Limit of key exchanges per minute and address. */
  perMinute?: number;
  trustProxy?: number;
  expiryCloses?: boolean;
  /** Overrides of the relay's limits. */
  limits?: Partial<RelayLimits>;
  /** Overrides of the HTTP server's timeouts. */
  timeouts?: Partial<Timeouts>;
  /** Limit of open connections. One address may have half as many plain ones. */
  maxConnections?: number;
  /** Tick interval of a real ticker; without it a {@link Recorder} replaces the ticker. */
  intervalMs?: number;
  /** Overrides of parts of the app. */
  replace?: (real: TickerAppOptions) => Partial<TickerAppOptions>;
}

/**
 * Service A on its own listener. Everything is real except the ticker, which records its messages unless `intervalMs`
 * is set.
 */
export interface TickerBundle extends TestServer, CapturedLog {
  /** Address of the stream. */
  stream: string;
  /** API key of the demo user. */
  apiKey: string;
  /** Path of the folder that contains `auth.db`. */
  dataDir: string;
  database: Database;
  tokens: Tokens;
  processes: PidRegistry;
  holders: HandlersByToken;
  relay: Relay;
  requests: RequestMetrics;
  history: PriceHistory;
  ticker: Recorder;
  /** Issues a token to the demo user, or to another one, with the user policy. */
  token(userId?: string): Promise<string>;
}

export async function startTickerBundle(options: TickerBundleOptions = {}): Promise<TickerBundle> {
  const { lifetimeSeconds = 3600, maxTokens, maxTokensPerKey, userPolicy = userPolicyFile, limits } = options;
  const { perMinute = 1_000_000, trustProxy = 0, expiryCloses = true } = options;
  const dataDir = await temporaryFolder();
  migrate(dataDir);
  const database = new Database(join(dataDir, 'auth.db'), { busyTimeoutMs: 50 });
  afterTest(() => database.close());
  const apiKeys = new ApiKeys(database);
  const { apiKey } = apiKeys.ensureDemoUser(0);
  const processes = new PidRegistry();
  const holders = new HandlersByToken(processes);
  const tokens = new Tokens({
    key: options.shared?.key,
    lifetimeSeconds,
    store:
      options.shared?.store ??
      new MemoryTokenStore({ ...(maxTokens && { maxTokens }), ...(maxTokensPerKey && { maxTokensPerKey }) }),
    onEnd(id, end) {
      if (end === 'token revoked' || expiryCloses) holders.end(id, end);
    },
  });
  afterTest(() => tokens.close());

  const captured = captureLog();
  const ticker = new Recorder();
  const relay = new Relay(processes, { ...defaults.ticker, ...limits });
  afterTest(() => relay.close(Promise.resolve()));
  let history = new PriceHistory(defaultSymbols, 1000);
  if (options.intervalMs === undefined) {
    processes.register(TICKER, ticker);
  } else {
    const { intervalMs } = options;
    const thread = new Ticker({
      intervalMs,
      symbols: defaultSymbols,
      processes,
      broadcast: (clients, message) => relay.broadcast(clients, message),
      log: captured.log,
    });
    processes.register(TICKER, thread);
    history = thread.history;
    afterTest(() => thread.stop());
    await thread.start();
  }

  const requests = new RequestMetrics();
  const real: TickerAppOptions = {
    requests,
    apiKeys,
    tokens,
    userScope: await loadScope(userPolicy, captured.log),
    rateLimit: new RateLimit({ perMinute }),
    trustProxy,
    holders,
    log: captured.log,
    relay,
    history,
    createHandler: (actorId) => createHandler(processes, actorId),
  };
  const handle = (await createTickerApp({ ...real, ...options.replace?.(real) })).callback();
  const { timeouts = {}, maxConnections } = options;
  const bound = maxConnections === undefined ? {} : { maxConnections, addressShare: 0.5 };
  const server = await serve(handle, { highWaterMark: SOCKET_BUFFER, timeouts, ...bound });
  afterTest(
    holdToContract(server.listener.port, 'ticker', options.intervalMs === undefined ? [] : defaultSymbols).forget,
  );
  server.listener.server.on('upgrade', relay.upgradeListener(handle, server.listener.release));

  return {
    ...server,
    ...captured,
    stream: `${server.url.replace('http', 'ws')}/ws/ticker`,
    apiKey,
    dataDir,
    database,
    tokens,
    processes,
    holders,
    relay,
    requests,
    history,
    ticker,
    async token(userId = 'demo') {
      return tokens.issue(
        { user_id: userId, role: 'user', apiKey: 'key of a spec' },
        [await loadPolicy(userPolicyFile)],
        '127.0.0.1',
      );
    },
  };
}

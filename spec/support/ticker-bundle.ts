import type { Socket } from 'node:net';
import { join } from 'node:path';
import { ApiKeys } from '../../db/sqlite/api-keys.ts';
import { Database } from '../../db/sqlite/database.ts';
import { defaults } from '../../main/config.ts';
import { rateLimit } from '../../main/http/rate-limit.ts';
import { RequestMetrics } from '../../main/metrics/request-metrics.ts';
import { createHandler, createHandlersByToken, TICKER } from '../../main/ticker/connection-handler.ts';
import { NumberedStream } from '../../main/ticker/numbered-stream.ts';
import { PidRegistry } from '../../main/ticker/pid-registry.ts';
import { loadRoles } from '../../main/ticker/policy.ts';
import { priceHistory } from '../../main/ticker/prices.ts';
import { createTickerApp, type TickerAppOptions } from '../../main/ticker/service.ts';
import { MemoryTokenStore } from '../../main/ticker/token-store.ts';
import { Tokens } from '../../main/ticker/tokens.ts';
import { Relay, type RelayLimits, SOCKET_BUFFER } from '../../main/ticker/ws-relay.ts';
import { type Clock, systemClock } from '../../workers/shared/clock.ts';
import { defaultSymbols } from '../../workers/shared/symbols.ts';
import { afterTest } from './cleanup.ts';
import { holdToContract } from './contract-watch.ts';
import { captureLog } from './log.ts';
import { migratedFolder } from './migrated-folder.ts';
import { connectRaw, handshake, type RawConnection } from './raw-connection.ts';
import { serve } from './server.ts';
import { Recorder, startTicker } from './ticker.ts';
import { until } from './until.ts';
import { connect, type StreamClient } from './websocket.ts';

export interface TickerBundleOptions {
  /** Whether the numbers of ticks continue from other nodes. */
  continues?: boolean;
  /** Interval of the numbered stream, which has no ticks of its own. */
  streamMs?: number;
  maxConnections?: number;
  lifetimeSeconds?: number;
  maxTokens?: number;
  maxTokensPerKey?: number;
  clock?: Clock;
  policies?: string;
  perMinute?: number;
  expiryCloses?: boolean;
  limits?: Partial<RelayLimits>;
  /** Tick interval of a real ticker; without it a {@link Recorder} replaces the ticker. */
  intervalMs?: number;
  replace?: (real: TickerAppOptions) => Partial<TickerAppOptions>;
}

export type TickerBundle = Awaited<ReturnType<typeof startTickerBundle>>;

/** Starts service A on its own listener. Without `intervalMs`, the ticker only records its messages. */
export async function startTickerBundle(options: TickerBundleOptions = {}) {
  const { lifetimeSeconds = 3600, maxTokens = 100_000, maxTokensPerKey = 1000, policies, maxConnections } = options;
  const { perMinute = 1_000_000, expiryCloses = true, clock = systemClock, continues = true } = options;
  const { intervalMs, streamMs = 500 } = options;
  const dataDir = await migratedFolder();
  const database = new Database(join(dataDir, 'auth.db'), { busyTimeoutMs: 50 });
  afterTest(() => database.close());
  const apiKeys = new ApiKeys(database);
  const { apiKey } = await apiKeys.ensureDemoUser(0);
  const actors = new PidRegistry();
  const handlersByToken = createHandlersByToken(actors);
  const tokens = new Tokens({
    key: 'the key of the bundle, with 32 bytes',
    lifetimeSeconds,
    store: new MemoryTokenStore({ clock, maxTokens, maxTokensPerKey }),
    clock,
    onEnd(id, end) {
      if (end === 'token revoked' || expiryCloses) handlersByToken.end(id, end);
    },
  });
  afterTest(() => tokens.store.close());

  const captured = captureLog();
  const { log } = captured;
  const ticker = new Recorder();
  const relay = new Relay(actors, { ...defaults.ticker, ...options.limits }, clock);
  afterTest(() => relay.close(Promise.resolve()));
  const toClients = { broadcast: relay.broadcast.bind(relay), replay: relay.replay.bind(relay) };
  let history = priceHistory(defaultSymbols, 1000);
  let numbered = new NumberedStream(
    { symbols: defaultSymbols, intervalMs: streamMs, actors, ...toClients, continues },
    { epoch: 1, number: 0, prices: [42_000, 2500, 95], timestamp: 0 },
  );
  if (intervalMs === undefined) actors.register(TICKER, ticker);
  else ({ history, numbered } = (await startTicker({ intervalMs, actors, ...toClients, clock, log })).ticker);

  const requests = new RequestMetrics();
  const real: TickerAppOptions = {
    ...{ requests, apiKeys, tokens, handlersByToken },
    scopeOf: await loadRoles(log, undefined, policies),
    rateLimit: rateLimit({ perMinute }),
    trustProxy: 0,
    ...{ log, relay, history, clock },
    createHandler: (actorId) => createHandler(actors, actorId, numbered),
  };
  const handle = (await createTickerApp({ ...real, ...options.replace?.(real) })).callback();
  const server = await serve(handle, { highWaterMark: SOCKET_BUFFER, ...(maxConnections && { maxConnections }) });
  const symbols = intervalMs === undefined ? [] : defaultSymbols;
  afterTest(holdToContract(server.listener.port, 'ticker', symbols).forget);
  server.listener.server.on('upgrade', relay.upgradeListener(handle, server.listener.release));

  const token = (userId = 'demo') =>
    tokens.issue({ user_id: userId, role: 'user', apiKey: 'key of a spec' }, real.scopeOf('user'), '127.0.0.1');
  const stream = `${server.url.replace('http', 'ws')}/ws/ticker`;

  return {
    ...server,
    ...captured,
    ...{ stream, apiKey, dataDir, database, tokens, actors, handlersByToken, relay, requests, numbered, ticker },
    options: real,
    /** Issues a token to the demo user, or to another one, with the user policy. */
    token,
    async join(options: Parameters<typeof connect>[1] = {}): Promise<StreamClient> {
      const client = await connect(stream, { token: await token(), ...options });
      await client.nextOf('welcome');
      return client;
    },
    async joinRaw(): Promise<RawConnection> {
      const raw = await connectRaw(server.listener.port, ...handshake('/ws/ticker', await token()));
      await raw.until(/"welcome"[^}]*\}/);
      return raw;
    },
    firstSocket(): Socket {
      const [socket] = server.sockets;
      if (socket === undefined) throw new Error('not connected');
      return socket;
    },
    /** Waits until nothing is kept of any client. The ticker is the only actor that no client has. */
    empties: () => {
      const all = [server.sockets, relay, numbered, handlersByToken];
      return until(() => relay.slotsTaken === 0 && actors.size === 1 && all.every(({ size }) => size === 0));
    },
  };
}

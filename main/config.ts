import { getHeapStatistics } from 'node:v8';
import { defaultSymbols, MAX_SYMBOLS, parseSymbol, type TickerSymbol } from '../workers/symbols.ts';
import { isHost, isOrigin } from './http/host-header.ts';
import {
  ConfigError,
  flag,
  heapShare,
  ifShared,
  integer,
  list,
  oneOf,
  type Parsed,
  parseAll,
  type Source,
  serverUrl,
  text,
  variable,
} from './setting-parsers.ts';

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** Queue drivers that a single node can use. Nodes that share NATS servers always use the driver `nats`. */
export const embeddedDrivers = ['memory', 'sqlite'] as const;

const MIB = 1024 * 1024;

const bodyLimit = integer('BODY_LIMIT', MIB, 1, 256 * MIB);

const parsers = {
  http: {
    /** Address to listen on. Undefined means all interfaces. */
    host: text('HOST'),
    /** Whether other processes may listen on the same ports (`SO_REUSEPORT`). */
    reusePort: flag('REUSE_PORT', { '1': true, '0': false }),
    /** Hosts allowed in the `Host` header, in addition to loopback names and IP addresses. */
    allowedHosts: list(
      'ALLOWED_HOSTS',
      (item) => item === '*' || isHost(item),
      'names or addresses without ports, separated by commas, or *',
    ),
    /** Web origins from which browsers may send cross-site requests. */
    corsOrigins: list('CORS_ORIGINS', isOrigin, 'origins like https://app.example.com, separated by commas'),
    /** Number of trusted reverse proxies. If 0, `X-Forwarded-For` is ignored. */
    trustProxy: integer('TRUST_PROXY', 0, 0, 16),
  },
  admin: {
    // Loopback by default, because clients must not reach the admin listener.
    host: text('ADMIN_HOST', '127.0.0.1'),
    /** Undefined if `ADMIN_PORT` is `off`, which disables the admin listener. */
    port: (source: Source) =>
      source.env.ADMIN_PORT === 'off' ? undefined : integer('ADMIN_PORT', 9464, 0, 65_535, ', or off')(source),
  },
  nats: {
    /** URLs of the NATS servers. Set if and only if `DATABASE_URL` is set. */
    url: serverUrl('NATS_URL', /^(nats|tls):\/\/./, 'a URL like nats://127.0.0.1:4222'),
    /** Prefix of stream, subject and key-value bucket names, so that several deployments can share a NATS server. */
    prefix: variable(
      'NATS_PREFIX',
      'ticker-and-tasks',
      (value) => /^[\w-]{1,32}$/.exec(value)?.[0],
      'up to 32 letters, digits, _ and -',
    ),
    replicas: integer('NATS_REPLICAS', 1, 1, 5),
  },
  storage: {
    /** URL of the PostgreSQL database. Set if and only if `NATS_URL` is set. */
    databaseUrl: serverUrl(
      'DATABASE_URL',
      /^postgres(ql)?:\/\/./,
      'a URL like postgres://user:password@127.0.0.1:5432/database',
    ),
    dataDir: text('DATA_DIR', 'data'),
  },
  tokens: {
    /** Secret from which the encryption key of tokens is derived. If undefined, each start uses a random secret. */
    key: variable(
      'TOKEN_KEY',
      undefined,
      (value) => (Buffer.byteLength(value) >= 32 ? value : undefined),
      'at least 32 bytes long',
      (value) => `${Buffer.byteLength(value)} bytes`,
    ),
    lifetimeSeconds: integer('TOKEN_LIFETIME_SECONDS', 3600, 1, 3600),
    expiryCloses: flag('TOKEN_EXPIRY_CLOSES'),
    /** Maximum number of valid tokens per API key. A further token evicts the oldest token of the key. */
    perKey: integer('TOKENS_PER_KEY', 1000, 1, 100_000),
    /** Maximum number of token requests per minute from one client address. */
    requestsPerMinute: integer('TOKEN_REQUESTS_PER_MINUTE', 1200, 1, 60_000_000),
  },
  ticker: {
    port: integer('TICKER_PORT', 8081, 0, 65_535),
    intervalMs: integer('TICK_INTERVAL_MS', 1000, 10, 60_000),
    symbols: symbols('TICKER_SYMBOLS'),
    /** Seed for reproducible prices. If undefined, prices are random. */
    seed: text('TICKER_SEED'),
    /** CSV file of recorded prices, or a module that supplies prices. If undefined, prices follow a random walk. */
    priceSource: (source: Source) => (source.env.PRICE_SOURCE === 'walk' ? undefined : text('PRICE_SOURCE')(source)),
    maxConnections: integer('MAX_CONNECTIONS', 50_000, 1, 1_000_000),
    // The default is high, because all clients behind a proxy share one address.
    maxConnectionsPerAddress: integer('MAX_CONNECTIONS_PER_ADDRESS', 25_000, 1, 1_000_000),
    maxMessagesPerSecond: integer('MAX_MESSAGES_PER_SECOND', 50, 1, 1_000_000),
  },
  tasks: {
    port: integer('TASKS_PORT', 8080, 0, 65_535),
    requireToken: flag('TASKS_REQUIRE_TOKEN'),
    concurrency: integer('TASK_CONCURRENCY', 2, 1, 64),
    prefetch: integer('TASK_PREFETCH', 5, 1, 10_000),
    /** Timeout of one handler run. The worker thread is then terminated. */
    timeoutMs: integer('TASK_TIMEOUT_MS', 30_000, 1, 86_400_000),
    /** Time for a handler to finish after its abort signal fires. The worker thread is then terminated. */
    cancelGraceMs: integer('TASK_CANCEL_GRACE_MS', 1000, 0, 60_000),
    handlers: text('TASK_HANDLERS'),
    /** Whether tasks with an unknown action are rejected, or processed with the output `processed`. */
    unknownActions: oneOf('TASK_UNKNOWN_ACTIONS', 'process', ['process', 'reject']),
    /** Heap limit of each worker thread. */
    memoryMb: integer('TASK_MEMORY_MB', 256, 16, 65_536),
    bodyLimit,
    /** Limit on the total size of all request bodies that have not been parsed yet. */
    bodyBudgetBytes: (source: Source) =>
      Math.max(integer('BODY_BUDGET_BYTES', heapShare(64 * MIB, 32), 2)(source), 2 * bodyLimit(source)),
    /** Limit on the total size of all responses that clients have not read yet. */
    responseBudgetBytes: (source: Source) =>
      Math.max(integer('RESPONSE_BUDGET_BYTES', heapShare(128 * MIB, 16), 4 * MIB)(source), 10 * bodyLimit(source)),
  },
  retention: {
    /** Number of rows to keep in the `tasks` table, newest first. 0 keeps all rows. */
    rows: integer('TASK_RETENTION_ROWS', 0, 0),
    /** Number of days to keep completed tasks. 0 keeps them forever. */
    days: integer('TASK_RETENTION_DAYS', 0, 0, 36_500),
  },
  queue: {
    driver: ifShared(
      oneOf('QUEUE_DRIVER', 'nats', ['nats'], ' if NATS_URL is set'),
      oneOf('QUEUE_DRIVER', 'memory', embeddedDrivers, ' unless NATS_URL is set'),
    ),
    maxLength: integer('QUEUE_MAX_LENGTH', 100_000, 1),
    maxBytes: integer(
      'QUEUE_MAX_BYTES',
      ifShared(() => 256 * MIB, heapShare(256 * MIB, 8)),
      1,
    ),
    maxKeys: integer('IDEMPOTENCY_MAX_KEYS', 100_000, 1, 10_000_000),
  },
  shutdownTimeoutMs: integer('SHUTDOWN_TIMEOUT_MS', 10_000, 0, 3_600_000),
  log: {
    level: oneOf('LOG_LEVEL', 'info', logLevels),
    format: oneOf('LOG_FORMAT', ({ terminal }) => (terminal ? 'pretty' : 'json'), ['json', 'pretty']),
  },
};

/** Settings of the process. Sizes are in bytes unless the name ends with another unit. */
export type Config = Parsed<typeof parsers>;

/**
 * Reads the settings from environment variables. An empty variable counts as unset.
 *
 * @param terminal whether standard output is a terminal, which makes `pretty` the default log format
 * @param heapLimitBytes heap limit of the main thread, which bounds the default byte budgets
 * @throws {ConfigError} for the first invalid variable
 */
export function loadConfig(
  env: Readonly<Record<string, string | undefined>>,
  terminal = false,
  heapLimitBytes = getHeapStatistics().heap_size_limit,
): Config {
  const shared = Boolean(env.NATS_URL);
  const config = parseAll(parsers, { env, terminal, heapLimitBytes, shared });
  if (shared !== (config.storage.databaseUrl !== undefined)) {
    const [missing, given] = shared ? ['DATABASE_URL', 'NATS_URL'] : ['NATS_URL', 'DATABASE_URL'];
    throw new ConfigError(missing, `set if ${given} is`, 'nothing');
  }
  if (shared && config.tokens.key === undefined) {
    throw new ConfigError('TOKEN_KEY', 'set if NATS_URL is, to the same value on all nodes', 'nothing');
  }
  const { seed, priceSource } = config.ticker;
  if (seed !== undefined && priceSource !== undefined) {
    throw new ConfigError('PRICE_SOURCE', 'unset or walk if TICKER_SEED is set', JSON.stringify(priceSource));
  }
  return config;
}

function symbols(name: string) {
  return (source: Source): readonly TickerSymbol[] => {
    const items = text(name)(source)?.split(',') ?? [];
    const expected = `1 to ${MAX_SYMBOLS} different symbols with prices, like BTC-USD:42000,DOGE-USD:0.08123`;
    if (items.length > MAX_SYMBOLS) throw new ConfigError(name, expected, `${items.length} symbols`);
    const found = new Map<string, TickerSymbol>();
    for (const item of items) {
      const parsed = parseSymbol(item.trim());
      if (parsed === undefined || found.has(parsed.symbol)) {
        throw new ConfigError(name, expected, JSON.stringify(item.trim()));
      }
      found.set(parsed.symbol, parsed);
    }
    return found.size === 0 ? defaultSymbols : [...found.values()];
  };
}

/** Settings for an empty environment and an unlimited heap. */
export const defaults = loadConfig({}, false, Number.POSITIVE_INFINITY) as Config & { admin: { port: number } };

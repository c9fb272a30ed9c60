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

/** Values of `QUEUE_DRIVER` on a single node, that is, without shared servers. */
export const embeddedDrivers = ['memory', 'sqlite'] as const;

const MIB = 1024 * 1024;

const bodyLimit = integer('BODY_LIMIT', MIB, 1, 256 * MIB);

/** Parsers of all settings, in sections named after the part of the process that uses them. */
const parsers = {
  http: {
    /** Address that both services listen on. Undefined means every interface. */
    host: text('HOST'),
    /** Whether other processes on this machine may listen on the same ports. */
    reusePort: flag('REUSE_PORT', { '1': true, '0': false }),
    /** Hosts allowed in a request's `Host` header, in addition to loopback names and IP addresses; see `hostCheck`. */
    allowedHosts: list(
      'ALLOWED_HOSTS',
      (item) => item === '*' || isHost(item),
      'names or addresses without ports, separated by commas, or *',
    ),
    /** Web origins whose pages may send write requests to service B and any requests to the admin listener. */
    corsOrigins: list('CORS_ORIGINS', isOrigin, 'origins like https://app.example.com, separated by commas'),
    /** Number of trusted reverse proxies. If 0, `X-Forwarded-For` is ignored. */
    trustProxy: integer('TRUST_PROXY', 0, 0, 16),
  },
  admin: {
    /** Address of the admin listener, which must not be exposed to clients. */
    host: text('ADMIN_HOST', '127.0.0.1'),
    /** Port of the admin listener. If undefined, there is no admin listener. */
    port: (source: Source) =>
      source.env.ADMIN_PORT === 'off' ? undefined : integer('ADMIN_PORT', 9464, 0, 65_535)(source),
  },
  nats: {
    /** NATS servers shared by all nodes. Set if and only if `storage.databaseUrl` is. */
    url: serverUrl('NATS_URL', /^(nats|tls):\/\/./, 'a URL like nats://127.0.0.1:4222'),
    /** Prefix of the names of NATS streams, buckets and subjects, so that several deployments can share a server. */
    prefix: variable(
      'NATS_PREFIX',
      'ticker-and-tasks',
      (value) => /^[\w-]{1,32}$/.exec(value)?.[0],
      'up to 32 letters, digits, _ and -',
    ),
    /** Number of NATS servers that store a copy of each message. */
    replicas: integer('NATS_REPLICAS', 1, 1, 5),
  },
  storage: {
    /** PostgreSQL database shared by all nodes. Set if and only if `nats.url` is. */
    databaseUrl: serverUrl('DATABASE_URL', /^postgres(ql)?:\/\/./, 'a URL like postgres://127.0.0.1/test'),
    /** Folder that holds `auth.db` and `tasks.db`. */
    dataDir: text('DATA_DIR', 'data'),
  },
  tokens: {
    /** Secret from which the encryption key of bearer tokens is derived. If undefined, each start uses a random secret. */
    key: variable(
      'TOKEN_KEY',
      undefined,
      (value) => (Buffer.byteLength(value) >= 32 ? value : undefined),
      'at least 32 bytes long',
      (value) => `${Buffer.byteLength(value)} bytes`,
    ),
    lifetimeSeconds: integer('TOKEN_LIFETIME_SECONDS', 3600, 1, 3600),
    /** Whether the expiry of a token closes the connections opened with it. */
    expiryCloses: flag('TOKEN_EXPIRY_CLOSES'),
    /** Maximum number of valid tokens per API key. Any further token evicts the oldest. Default: 1 % of the token store's capacity. */
    perKey: integer('TOKENS_PER_KEY', 1000, 1, 100_000),
    /** Maximum number of API key exchanges per minute from one client address. */
    requestsPerMinute: integer('TOKEN_REQUESTS_PER_MINUTE', 1200, 1, 60_000_000),
  },
  ticker: {
    port: integer('TICKER_PORT', 8081, 0, 65_535),
    intervalMs: integer('TICK_INTERVAL_MS', 1000, 10, 60_000),
    /** Symbols of the ticker with their initial prices. */
    symbols: symbols('TICKER_SYMBOLS'),
    /** Seed that makes prices reproducible. Undefined means random prices. */
    seed: text('TICKER_SEED'),
    /** CSV file of recorded prices, or module that supplies prices. Undefined means that prices are computed. */
    priceSource: (source: Source) => (source.env.PRICE_SOURCE === 'walk' ? undefined : text('PRICE_SOURCE')(source)),
    maxConnections: integer('MAX_CONNECTIONS', 50_000, 1, 1_000_000),
    // Half of the default of `maxConnections`, because all clients behind a proxy or in a load test share one address.
    maxConnectionsPerAddress: integer('MAX_CONNECTIONS_PER_ADDRESS', 25_000, 1, 1_000_000),
    maxMessagesPerSecond: integer('MAX_MESSAGES_PER_SECOND', 50, 1, 1_000_000),
  },
  tasks: {
    port: integer('TASKS_PORT', 8080, 0, 65_535),
    /** Whether every request to service B needs a token. */
    requireToken: flag('TASKS_REQUIRE_TOKEN'),
    concurrency: integer('TASK_CONCURRENCY', 2, 1, 64),
    prefetch: integer('TASK_PREFETCH', 5, 1, 10_000),
    /** Time limit of an attempt (one run of a task's handler), after which the worker thread is terminated. */
    timeoutMs: integer('TASK_TIMEOUT_MS', 30_000, 1, 86_400_000),
    /** Time that a handler has to finish once its signal is aborted. After that, the worker thread is terminated. */
    cancelGraceMs: integer('TASK_CANCEL_GRACE_MS', 1000, 0, 60_000),
    /** Module with the user's task handlers: a path relative to the working directory, or the name of a package. */
    handlers: text('TASK_HANDLERS'),
    /** Whether a task with an unknown action is processed (its output is `processed`) or refused on submission. */
    unknownActions: oneOf('TASK_UNKNOWN_ACTIONS', 'process', ['process', 'reject']),
    /** Memory limit of a worker thread. A thread that exceeds it is terminated. */
    memoryMb: integer('TASK_MEMORY_MB', 256, 16, 65_536),
    bodyLimit,
    /** Limit on the total size of service B's unparsed request bodies. At least twice `bodyLimit`. */
    bodyBudgetBytes: (source: Source) =>
      Math.max(integer('BODY_BUDGET_BYTES', heapShare(64 * MIB, 32), 2)(source), 2 * bodyLimit(source)),
    /**
     * Limit on the total size of service B's responses that clients have not read yet. At least ten times `bodyLimit`, enough for two
     * of the largest rows: payload and result can each be as large as the largest body, and JSON escaping doubles them.
     */
    responseBudgetBytes: (source: Source) =>
      Math.max(integer('RESPONSE_BUDGET_BYTES', heapShare(128 * MIB, 16), 4 * MIB)(source), 10 * bodyLimit(source)),
  },
  retention: {
    /** Number of newest rows kept in `tasks`. 0 keeps all. */
    rows: integer('TASK_RETENTION_ROWS', 0, 0),
    /** Days after which completed tasks are deleted. 0 keeps them forever. */
    days: integer('TASK_RETENTION_DAYS', 0, 0, 36_500),
  },
  queue: {
    driver: ifShared(oneOf('QUEUE_DRIVER', 'nats', ['nats']), oneOf('QUEUE_DRIVER', 'memory', embeddedDrivers)),
    maxLength: integer('QUEUE_MAX_LENGTH', 100_000, 1),
    maxBytes: integer(
      'QUEUE_MAX_BYTES',
      ifShared(() => 256 * MIB, heapShare(256 * MIB, 8)),
      1,
    ),
    /** Maximum number of stored idempotency keys. */
    maxKeys: integer('IDEMPOTENCY_MAX_KEYS', 100_000, 1, 10_000_000),
  },
  shutdownTimeoutMs: integer('SHUTDOWN_TIMEOUT_MS', 10_000, 0, 3_600_000),
  log: {
    level: oneOf('LOG_LEVEL', 'info', logLevels),
    format: oneOf('LOG_FORMAT', ({ terminal }) => (terminal ? 'pretty' : 'json'), ['json', 'pretty']),
  },
};

/** Settings of the process. Sizes are in bytes, durations in the unit that the name ends with. */
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

/** Parser for a comma-separated list of symbols with prices. */
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

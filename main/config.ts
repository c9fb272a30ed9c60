import { getHeapStatistics } from 'node:v8';
import { isHost, isOrigin } from './http/host-header.ts';

/** Settings of the process. Sizes are in bytes, durations in the unit that the name ends with. */
export type Config = ReturnType<typeof loadConfig>;

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** Values of `QUEUE_DRIVER` on a single node, that is, without shared servers. */
export const embeddedDrivers = ['memory', 'sqlite'] as const;

const MIB = 1024 * 1024;

/** Invalid setting. `message` is one line that says what to fix. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(variable: string, expected: string, got: string) {
    super(`${variable} must be ${expected}, got ${got}`);
  }
}

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
) {
  const text = (name: string) => env[name] || undefined;

  const integer = (name: string, fallback: number, min: number, max = Number.MAX_SAFE_INTEGER) => {
    const value = text(name);
    if (value === undefined) return fallback;
    const number = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
    if (number >= min && number <= max) return number;
    const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
    throw new ConfigError(name, `a whole number ${range}`, JSON.stringify(value));
  };

  const oneOf = <T extends string>(name: string, fallback: T, choices: readonly T[]): T => {
    const value = text(name) ?? fallback;
    const choice = choices.find((each) => each === value);
    if (choice !== undefined) return choice;
    throw new ConfigError(name, `one of ${choices.join(', ')}`, JSON.stringify(value));
  };

  const serverUrl = (name: string, scheme: RegExp, expected: string) => {
    const value = text(name);
    // The error message leaves out the value, because a URL may contain a password.
    if (value !== undefined && !value.split(',').every((each) => scheme.test(each) && isServerUrl(each))) {
      throw new ConfigError(name, expected, 'another value');
    }
    return value;
  };

  const list = (variable: string, isValid: (item: string) => boolean, expected: string): readonly string[] => {
    const value = text(variable);
    if (value === undefined) return [];
    const items = value.split(',').map((item) => item.trim());
    if (items.every(isValid)) return items.map((item) => item.toLowerCase());
    throw new ConfigError(variable, expected, JSON.stringify(value));
  };

  const natsUrl = serverUrl('NATS_URL', /^(nats|tls):\/\/./, 'a URL like nats://127.0.0.1:4222');
  const databaseUrl = serverUrl('DATABASE_URL', /^postgres(ql)?:\/\/./, 'a URL like postgres://127.0.0.1/test');
  const shared = natsUrl !== undefined;
  if (shared !== (databaseUrl !== undefined)) {
    const [missing, given] = shared ? ['DATABASE_URL', 'NATS_URL'] : ['NATS_URL', 'DATABASE_URL'];
    throw new ConfigError(missing, `set if ${given} is`, 'nothing');
  }
  const tokenKey = text('TOKEN_KEY');
  if (tokenKey !== undefined && Buffer.byteLength(tokenKey) < 32) {
    throw new ConfigError('TOKEN_KEY', 'at least 32 bytes long', `${Buffer.byteLength(tokenKey)} bytes`);
  }
  if (shared && tokenKey === undefined) {
    throw new ConfigError('TOKEN_KEY', 'set if NATS_URL is, to the same value on all nodes', 'nothing');
  }

  const natsPrefix = text('NATS_PREFIX') ?? 'ticker-and-tasks';
  if (!/^[\w-]{1,32}$/.test(natsPrefix)) {
    throw new ConfigError('NATS_PREFIX', 'up to 32 letters, digits, _ and -', JSON.stringify(natsPrefix));
  }
  const heapShare = (fallback: number, divisor: number) => Math.min(fallback, Math.floor(heapLimitBytes / divisor));
  const bodyLimit = integer('BODY_LIMIT', MIB, 1, 256 * MIB);

  return {
    /** Address that both services listen on. Undefined means every interface. */
    host: text('HOST'),
    tickerPort: integer('TICKER_PORT', 8081, 0, 65_535),
    tasksPort: integer('TASKS_PORT', 8080, 0, 65_535),
    /** Address of the admin listener, which must not be exposed to clients. */
    adminHost: text('ADMIN_HOST') ?? '127.0.0.1',
    /** Port of the admin listener. If undefined, there is no admin listener. */
    adminPort: text('ADMIN_PORT') === 'off' ? undefined : integer('ADMIN_PORT', 9464, 0, 65_535),
    /** Whether other processes on this machine may listen on the same ports. */
    reusePort: oneOf('REUSE_PORT', '0', ['0', '1']) === '1',
    /** NATS servers shared by all nodes. Set if and only if `databaseUrl` is. */
    natsUrl,
    /** PostgreSQL database shared by all nodes. Set if and only if `natsUrl` is. */
    databaseUrl,
    /** Prefix of the names of NATS streams, buckets and subjects, so that several deployments can share a server. */
    natsPrefix,
    /** Number of NATS servers that store a copy of each message. */
    natsReplicas: integer('NATS_REPLICAS', 1, 1, 5),
    /** Folder that holds `auth.db` and `tasks.db`. */
    dataDir: text('DATA_DIR') ?? 'data',
    /** Secret from which the encryption key of bearer tokens is derived. If undefined, each start uses a random secret. */
    tokenKey,
    tokenLifetimeSeconds: integer('TOKEN_LIFETIME_SECONDS', 3600, 1, 3600),
    /** Whether the expiry of a token closes the connections opened with it. */
    tokenExpiryCloses: oneOf('TOKEN_EXPIRY_CLOSES', 'false', ['true', 'false']) === 'true',
    /** Maximum number of valid tokens of one API key; one more evicts the oldest. Default: 1 % of the token store's capacity. */
    tokensPerKey: integer('TOKENS_PER_KEY', 1000, 1, 100_000),
    /** Whether every request to service B needs a token. */
    tasksRequireToken: oneOf('TASKS_REQUIRE_TOKEN', 'false', ['true', 'false']) === 'true',
    /** Maximum number of API key exchanges per minute from one client address. */
    tokenRequestsPerMinute: integer('TOKEN_REQUESTS_PER_MINUTE', 1200, 1, 60_000_000),
    /** Hosts that a request's `Host` header may name beside loopback names and IP addresses; see `hostCheck` in `http/host`. */
    allowedHosts: list(
      'ALLOWED_HOSTS',
      (item) => item === '*' || isHost(item),
      'names or addresses without ports, separated by commas, or *',
    ),
    /** Web origins whose pages may send write requests to service B and any requests to the admin listener. */
    corsOrigins: list('CORS_ORIGINS', isOrigin, 'origins like https://app.example.com, separated by commas'),
    /** Number of trusted reverse proxies. If 0, `X-Forwarded-For` is ignored. */
    trustProxy: integer('TRUST_PROXY', 0, 0, 16),
    tickIntervalMs: integer('TICK_INTERVAL_MS', 1000, 10, 60_000),
    /** Seed that makes prices reproducible. Undefined means random prices. */
    tickerSeed: text('TICKER_SEED'),
    maxConnections: integer('MAX_CONNECTIONS', 50_000, 1, 1_000_000),
    // The default is half of `maxConnections`, because all clients behind a proxy, or of a load test, share one address.
    maxConnectionsPerAddress: integer('MAX_CONNECTIONS_PER_ADDRESS', 25_000, 1, 1_000_000),
    maxMessagesPerSecond: integer('MAX_MESSAGES_PER_SECOND', 50, 1, 1_000_000),
    taskConcurrency: integer('TASK_CONCURRENCY', 2, 1, 64),
    taskPrefetch: integer('TASK_PREFETCH', 5, 1, 10_000),
    /** Time limit of an attempt (one run of a task's handler). Past it, the worker thread is terminated. */
    taskTimeoutMs: integer('TASK_TIMEOUT_MS', 30_000, 1, 86_400_000),
    /** Memory limit of a worker thread. Past it, the thread is terminated. */
    taskMemoryMb: integer('TASK_MEMORY_MB', 256, 16, 65_536),
    /** Number of newest rows of `tasks` that are kept. 0 keeps all. */
    taskRetentionRows: integer('TASK_RETENTION_ROWS', 0, 0),
    /** Days after which completed tasks are deleted. 0 keeps them forever. */
    taskRetentionDays: integer('TASK_RETENTION_DAYS', 0, 0, 36_500),
    queueDriver: shared ? oneOf('QUEUE_DRIVER', 'nats', ['nats']) : oneOf('QUEUE_DRIVER', 'memory', embeddedDrivers),
    queueMaxLength: integer('QUEUE_MAX_LENGTH', 100_000, 1),
    queueMaxBytes: integer('QUEUE_MAX_BYTES', shared ? 256 * MIB : heapShare(256 * MIB, 8), 1),
    /** Maximum number of stored idempotency keys. */
    idempotencyMaxKeys: integer('IDEMPOTENCY_MAX_KEYS', 100_000, 1, 10_000_000),
    bodyLimit,
    /** Limit on all unparsed request bodies of service B together. At least twice `bodyLimit`. */
    bodyBudgetBytes: Math.max(integer('BODY_BUDGET_BYTES', heapShare(64 * MIB, 32), 2), 2 * bodyLimit),
    /**
     * Limit on the bytes of all responses of service B that clients have not read yet. At least ten times `bodyLimit`, which fits
     * two of the largest rows: payload and result each have the size of the largest body, doubled by JSON escaping.
     */
    responseBudgetBytes: Math.max(integer('RESPONSE_BUDGET_BYTES', heapShare(128 * MIB, 16), 4 * MIB), 10 * bodyLimit),
    shutdownTimeoutMs: integer('SHUTDOWN_TIMEOUT_MS', 10_000, 0, 3_600_000),
    logLevel: oneOf('LOG_LEVEL', 'info', logLevels),
    logFormat: oneOf('LOG_FORMAT', terminal ? 'pretty' : 'json', ['json', 'pretty']),
  };
}

/** Default settings: those for an empty environment and an unlimited heap. */
export const defaults = loadConfig({}, false, Number.POSITIVE_INFINITY) as Config & { adminPort: number };

/** Whether a text is a valid URL whose user name and password can be percent-decoded. */
function isServerUrl(text: string): boolean {
  try {
    const { username, password } = new URL(text);
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

import { getHeapStatistics } from 'node:v8';
import { isHost, isOrigin } from './http/host.ts';

/** Settings of the process. Sizes are in bytes, durations in the unit that the name ends with. */
export interface Config {
  /** Address that both services listen on. Undefined means every interface. */
  host: string | undefined;
  tickerPort: number;
  tasksPort: number;
  /** Address of the admin listener, which must not be exposed to clients. */
  adminHost: string;
  /** Undefined disables the admin listener. */
  adminPort: number | undefined;
  /** Whether other processes on this machine may listen on the same ports. */
  reusePort: boolean;
  /** NATS servers shared by all nodes. Set if and only if `databaseUrl` is. */
  natsUrl: string | undefined;
  /** PostgreSQL database shared by all nodes. Set if and only if `natsUrl` is. */
  databaseUrl: string | undefined;
  /** Prefix of the names of streams, buckets and subjects, so that several deployments can share a server. */
  natsPrefix: string;
  /** Number of NATS servers that store each message. */
  natsReplicas: number;
  /** Folder that holds `auth.db` and `tasks.db`. */
  dataDir: string;
  /** Secret that the token key is derived from. Undefined means a random one at each start. */
  tokenKey: string | undefined;
  tokenLifetimeSeconds: number;
  /** Whether the expiry of a token closes the connections opened with it. */
  tokenExpiryCloses: boolean;
  /** Maximum number of valid tokens of one API key. Past it, the oldest is evicted. */
  tokensPerKey: number;
  /** Whether every request to service B needs a token. */
  tasksRequireToken: boolean;
  /** How often one address may exchange an API key. */
  tokenRequestsPerMinute: number;
  /** Hosts that requests may address beside loopback; see `http/host.ts`. */
  allowedHosts: readonly string[];
  /** Origins whose pages may write to service B and use the admin listener. */
  corsOrigins: readonly string[];
  /** Number of trusted reverse proxies. If 0, `X-Forwarded-For` is ignored. */
  trustProxy: number;
  tickIntervalMs: number;
  /** Seed that makes prices reproducible. Undefined means random prices. */
  tickerSeed: string | undefined;
  maxConnections: number;
  maxConnectionsPerAddress: number;
  maxMessagesPerSecond: number;
  taskConcurrency: number;
  taskPrefetch: number;
  /** Time limit of an attempt. Past it, the worker thread is terminated. */
  taskTimeoutMs: number;
  /** Memory limit of a worker thread. Past it, the thread is terminated. */
  taskMemoryMb: number;
  /** Number of newest rows of `tasks` that are kept. 0 keeps all. */
  taskRetentionRows: number;
  /** Days after which completed tasks are deleted. 0 keeps them forever. */
  taskRetentionDays: number;
  queueDriver: (typeof queueDrivers)[number];
  queueMaxLength: number;
  queueMaxBytes: number;
  /** Maximum number of stored idempotency keys. */
  idempotencyMaxKeys: number;
  bodyLimit: number;
  /** Limit on all unparsed request bodies of service B together. At least twice `bodyLimit`. */
  bodyBudgetBytes: number;
  /** Limit on all unread responses of service B (rows and lists) together. At least ten times `bodyLimit`. */
  responseBudgetBytes: number;
  shutdownTimeoutMs: number;
  logLevel: LogLevel;
  logFormat: LogFormat;
}

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;
export type LogLevel = (typeof logLevels)[number];
export const logFormats = ['json', 'pretty'] as const;
export type LogFormat = (typeof logFormats)[number];

export const queueDrivers = ['memory', 'sqlite', 'nats'] as const;

/** Queue drivers of a single node. */
export const embeddedDrivers = ['memory', 'sqlite'] as const satisfies readonly (typeof queueDrivers)[number][];

const MIB = 1024 * 1024;

/** Defaults, with the values of the specification's table of limits. */
export const defaults: Readonly<Config> & { adminPort: number } = {
  host: undefined,
  tickerPort: 8081,
  tasksPort: 8080,
  adminHost: '127.0.0.1',
  adminPort: 9464,
  reusePort: false,
  natsUrl: undefined,
  databaseUrl: undefined,
  natsPrefix: 'ticker-and-tasks',
  natsReplicas: 1,
  dataDir: 'data',
  tokenKey: undefined,
  tokenLifetimeSeconds: 3600,
  tokenExpiryCloses: false,
  // 1 % of the token store's capacity.
  tokensPerKey: 1000,
  tasksRequireToken: false,
  tokenRequestsPerMinute: 1200,
  allowedHosts: [],
  corsOrigins: [],
  trustProxy: 0,
  tickIntervalMs: 1000,
  tickerSeed: undefined,
  maxConnections: 50_000,
  // Half of all connections, because a proxy or a load test is one address.
  maxConnectionsPerAddress: 25_000,
  maxMessagesPerSecond: 50,
  taskConcurrency: 2,
  taskPrefetch: 5,
  taskTimeoutMs: 30_000,
  taskMemoryMb: 256,
  taskRetentionRows: 0,
  taskRetentionDays: 0,
  queueDriver: 'memory',
  queueMaxLength: 100_000,
  queueMaxBytes: 256 * MIB,
  idempotencyMaxKeys: 100_000,
  bodyLimit: MIB,
  bodyBudgetBytes: 64 * MIB,
  responseBudgetBytes: 128 * MIB,
  shutdownTimeoutMs: 10_000,
  logLevel: 'info',
  logFormat: 'json',
};

/** Invalid setting. `message` is one line that says what to fix. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(variable: string, expected: string, got: string) {
    super(`${variable} must be ${expected}, got ${got}`);
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the settings from environment variables. An empty variable counts as unset.
 *
 * @param env the environment, usually `process.env`
 * @param terminal whether standard output is a terminal, which makes `pretty` the default log format
 * @param heapLimitBytes heap limit of the main thread, which bounds the default byte budgets
 * @throws {ConfigError} for the first invalid variable
 */
export function loadConfig(
  env: Environment,
  terminal = false,
  heapLimitBytes = getHeapStatistics().heap_size_limit,
): Config {
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

  const secret = (name: string, minBytes: number) => {
    const value = text(name);
    if (value === undefined || Buffer.byteLength(value) >= minBytes) return value;
    throw new ConfigError(name, `at least ${minBytes} bytes long`, `${Buffer.byteLength(value)} bytes`);
  };

  const serverUrl = (name: string, scheme: RegExp, expected: string) => {
    const value = text(name);
    // The value is not shown, because it may contain a password.
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

  const name = (variable: string, fallback: string) => {
    const value = text(variable) ?? fallback;
    if (/^[\w-]{1,32}$/.test(value)) return value;
    throw new ConfigError(variable, 'up to 32 letters, digits, _ and -', JSON.stringify(value));
  };

  const natsUrl = serverUrl('NATS_URL', /^(nats|tls):\/\/./, 'a URL like nats://127.0.0.1:4222');
  const databaseUrl = serverUrl('DATABASE_URL', /^postgres(ql)?:\/\/./, 'a URL like postgres://127.0.0.1/test');
  const shared = natsUrl !== undefined;
  if (shared !== (databaseUrl !== undefined)) {
    const [missing, given] = shared ? ['DATABASE_URL', 'NATS_URL'] : ['NATS_URL', 'DATABASE_URL'];
    throw new ConfigError(missing, `set if ${given} is`, 'nothing');
  }
  const tokenKey = secret('TOKEN_KEY', 32);
  if (shared && tokenKey === undefined) {
    throw new ConfigError('TOKEN_KEY', 'set if NATS_URL is, to the same value on all nodes', 'nothing');
  }

  const bodyLimit = integer('BODY_LIMIT', defaults.bodyLimit, 1, 256 * MIB);
  const heapShare = (fallback: number, divisor: number) => Math.min(fallback, Math.floor(heapLimitBytes / divisor));

  return {
    host: text('HOST'),
    tickerPort: integer('TICKER_PORT', defaults.tickerPort, 0, 65_535),
    tasksPort: integer('TASKS_PORT', defaults.tasksPort, 0, 65_535),
    adminHost: text('ADMIN_HOST') ?? defaults.adminHost,
    adminPort: text('ADMIN_PORT') === 'off' ? undefined : integer('ADMIN_PORT', defaults.adminPort, 0, 65_535),
    reusePort: oneOf('REUSE_PORT', '0', ['0', '1']) === '1',
    natsUrl,
    databaseUrl,
    natsPrefix: name('NATS_PREFIX', defaults.natsPrefix),
    natsReplicas: integer('NATS_REPLICAS', defaults.natsReplicas, 1, 5),
    dataDir: text('DATA_DIR') ?? defaults.dataDir,
    tokenKey,
    tokenLifetimeSeconds: integer('TOKEN_LIFETIME_SECONDS', defaults.tokenLifetimeSeconds, 1, 3600),
    tokenExpiryCloses: oneOf('TOKEN_EXPIRY_CLOSES', `${defaults.tokenExpiryCloses}`, ['true', 'false']) === 'true',
    tokensPerKey: integer('TOKENS_PER_KEY', defaults.tokensPerKey, 1, 100_000),
    tasksRequireToken: oneOf('TASKS_REQUIRE_TOKEN', `${defaults.tasksRequireToken}`, ['true', 'false']) === 'true',
    tokenRequestsPerMinute: integer('TOKEN_REQUESTS_PER_MINUTE', defaults.tokenRequestsPerMinute, 1, 60_000_000),
    allowedHosts: list(
      'ALLOWED_HOSTS',
      (item) => item === '*' || isHost(item),
      'names or addresses without ports, separated by commas, or *',
    ),
    corsOrigins: list('CORS_ORIGINS', isOrigin, 'origins like https://app.example.com, separated by commas'),
    trustProxy: integer('TRUST_PROXY', defaults.trustProxy, 0, 16),
    tickIntervalMs: integer('TICK_INTERVAL_MS', defaults.tickIntervalMs, 10, 60_000),
    tickerSeed: text('TICKER_SEED'),
    maxConnections: integer('MAX_CONNECTIONS', defaults.maxConnections, 1, 1_000_000),
    maxConnectionsPerAddress: integer('MAX_CONNECTIONS_PER_ADDRESS', defaults.maxConnectionsPerAddress, 1, 1_000_000),
    maxMessagesPerSecond: integer('MAX_MESSAGES_PER_SECOND', defaults.maxMessagesPerSecond, 1, 1_000_000),
    taskConcurrency: integer('TASK_CONCURRENCY', defaults.taskConcurrency, 1, 64),
    taskPrefetch: integer('TASK_PREFETCH', defaults.taskPrefetch, 1, 10_000),
    taskTimeoutMs: integer('TASK_TIMEOUT_MS', defaults.taskTimeoutMs, 1, 86_400_000),
    taskMemoryMb: integer('TASK_MEMORY_MB', defaults.taskMemoryMb, 16, 65_536),
    taskRetentionRows: integer('TASK_RETENTION_ROWS', defaults.taskRetentionRows, 0),
    taskRetentionDays: integer('TASK_RETENTION_DAYS', defaults.taskRetentionDays, 0, 36_500),
    queueDriver: oneOf('QUEUE_DRIVER', shared ? 'nats' : defaults.queueDriver, shared ? ['nats'] : embeddedDrivers),
    queueMaxLength: integer('QUEUE_MAX_LENGTH', defaults.queueMaxLength, 1),
    queueMaxBytes: integer(
      'QUEUE_MAX_BYTES',
      shared ? defaults.queueMaxBytes : heapShare(defaults.queueMaxBytes, 8),
      1,
    ),
    idempotencyMaxKeys: integer('IDEMPOTENCY_MAX_KEYS', defaults.idempotencyMaxKeys, 1, 10_000_000),
    bodyLimit,
    bodyBudgetBytes: Math.max(integer('BODY_BUDGET_BYTES', heapShare(defaults.bodyBudgetBytes, 32), 2), 2 * bodyLimit),
    // Fits two rows whose payload and result have the size of the largest body, each doubled by escaping.
    responseBudgetBytes: Math.max(
      integer('RESPONSE_BUDGET_BYTES', heapShare(defaults.responseBudgetBytes, 16), 4 * MIB),
      10 * bodyLimit,
    ),
    shutdownTimeoutMs: integer('SHUTDOWN_TIMEOUT_MS', defaults.shutdownTimeoutMs, 0, 3_600_000),
    logLevel: oneOf('LOG_LEVEL', defaults.logLevel, logLevels),
    logFormat: oneOf('LOG_FORMAT', terminal ? 'pretty' : defaults.logFormat, logFormats),
  };
}

/** Whether a text is a valid URL with decodable user and password. */
function isServerUrl(text: string): boolean {
  try {
    const { username, password } = new URL(text);
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

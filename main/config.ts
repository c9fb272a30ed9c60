import { getHeapStatistics } from 'node:v8';
import { isHost, isOrigin } from './http/host.ts';

/** Everything that can be set from outside. Sizes are in bytes, durations as their names say. */
export interface Config {
  /** Address both services listen on; undefined means every interface. */
  host: string | undefined;
  tickerPort: number;
  tasksPort: number;
  /** Address of the admin listener, which is not for clients. */
  adminHost: string;
  /** Undefined means that there is none. */
  adminPort: number | undefined;
  /** Whether other processes of this machine may listen on the same ports. */
  reusePort: boolean;
  /** Servers that many nodes share, set both or neither: where messages go, and where rows are. */
  natsUrl: string | undefined;
  databaseUrl: string | undefined;
  /** What the names of streams, buckets and subjects begin with, so that several systems may share a server. */
  natsPrefix: string;
  /** How many NATS servers keep each message. */
  natsReplicas: number;
  /** Folder that holds `auth.db` and `tasks.db`. */
  dataDir: string;
  /** Secret the token key is derived from; undefined means a random one at each start. */
  tokenKey: string | undefined;
  tokenLifetimeSeconds: number;
  /** Whether the connections that were opened with a token are closed when it expires. */
  tokenExpiryCloses: boolean;
  /** Valid tokens of one API key; past it the oldest is evicted. */
  tokensPerKey: number;
  /** Whether every request to service B needs a token. */
  tasksRequireToken: boolean;
  /** How often one address may exchange an API key. */
  tokenRequestsPerMinute: number;
  /** Hosts of requests, beside those of loopback; see `http/allowed-hosts`. */
  allowedHosts: readonly string[];
  /** Origins whose pages may write to service B and ask the admin listener. */
  corsOrigins: readonly string[];
  /** Proxies in front whose word about a client's address is taken. */
  trustProxy: number;
  tickIntervalMs: number;
  /** Makes the prices a function of it and of the time; undefined means random ones. */
  tickerSeed: string | undefined;
  maxConnections: number;
  maxConnectionsPerAddress: number;
  maxMessagesPerSecond: number;
  taskConcurrency: number;
  taskPrefetch: number;
  /** How long an attempt at a task may take until its thread is ended. */
  taskTimeoutMs: number;
  /** Memory that a task's thread may use until it is ended. */
  taskMemoryMb: number;
  /** Rows of tasks that are kept, the latest, and days for which one is kept; 0 keeps all, for ever. */
  taskRetentionRows: number;
  taskRetentionDays: number;
  queueDriver: (typeof queueDrivers)[number];
  queueMaxLength: number;
  queueMaxBytes: number;
  /** Idempotency keys that are remembered. */
  idempotencyMaxKeys: number;
  bodyLimit: number;
  /** Bytes of all unparsed request bodies of service B; at least twice `bodyLimit`. */
  bodyBudgetBytes: number;
  /** Bytes of rows and listings that clients of service B have not read yet; at least ten times `bodyLimit`. */
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

/** Those that a process without servers has. */
export const embeddedDrivers = ['memory', 'sqlite'] as const satisfies readonly (typeof queueDrivers)[number][];

const MIB = 1024 * 1024;

/** What holds where the environment is silent; the values of the specification's table of limits. */
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
  // A hundredth of the token store.
  tokensPerKey: 1000,
  tasksRequireToken: false,
  tokenRequestsPerMinute: 1200,
  allowedHosts: [],
  corsOrigins: [],
  trustProxy: 0,
  tickIntervalMs: 1000,
  tickerSeed: undefined,
  maxConnections: 50_000,
  // A proxy, or a load test, is one address: half of all.
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

/** A setting that cannot be used; `message` is the one line a user needs to mend it. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(variable: string, expected: string, got: string) {
    super(`${variable} must be ${expected}, got ${got}`);
  }
}

type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads the settings from `env`, an empty variable counting as one not set.
 *
 * @param env the environment, usually `process.env`
 * @param terminal whether the log goes to a terminal, where `pretty` is the default format
 * @param heapLimitBytes of the main thread; on a small heap the defaults of the byte budgets are smaller, too
 * @throws {ConfigError} on the first variable whose value cannot be used
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

  const address = (name: string, scheme: RegExp, expected: string) => {
    const value = text(name);
    // Not shown: it may hold a password.
    if (value !== undefined && !value.split(',').every((each) => scheme.test(each) && isAddress(each))) {
      throw new ConfigError(name, expected, 'another address');
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

  const natsUrl = address('NATS_URL', /^(nats|tls):\/\/./, 'an address like nats://127.0.0.1:4222');
  const databaseUrl = address('DATABASE_URL', /^postgres(ql)?:\/\/./, 'an address like postgres://127.0.0.1/test');
  const shared = natsUrl !== undefined;
  if (shared !== (databaseUrl !== undefined)) {
    const [missing, given] = shared ? ['DATABASE_URL', 'NATS_URL'] : ['NATS_URL', 'DATABASE_URL'];
    throw new ConfigError(missing, `set where ${given} is`, 'nothing');
  }
  const tokenKey = secret('TOKEN_KEY', 32);
  if (shared && tokenKey === undefined) {
    throw new ConfigError('TOKEN_KEY', 'set where NATS_URL is, the same on all nodes', 'nothing');
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
    // Room for a row with payload and result of the largest body, each escaped to twice its size, and as much again.
    responseBudgetBytes: Math.max(
      integer('RESPONSE_BUDGET_BYTES', heapShare(defaults.responseBudgetBytes, 16), 4 * MIB),
      10 * bodyLimit,
    ),
    shutdownTimeoutMs: integer('SHUTDOWN_TIMEOUT_MS', defaults.shutdownTimeoutMs, 0, 3_600_000),
    logLevel: oneOf('LOG_LEVEL', defaults.logLevel, logLevels),
    logFormat: oneOf('LOG_FORMAT', terminal ? 'pretty' : defaults.logFormat, logFormats),
  };
}

/** Whether a text can be taken apart as an address, user and password included. */
function isAddress(text: string): boolean {
  try {
    const { username, password } = new URL(text);
    decodeURIComponent(username + password);
    return true;
  } catch {
    return false;
  }
}

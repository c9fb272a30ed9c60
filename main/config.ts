import { getHeapStatistics } from 'node:v8';
import { editsBetween } from '../workers/shared/nearest-names.ts';
import { defaultSymbols, MAX_SYMBOLS, parseSymbol, type TickerSymbol } from '../workers/shared/symbols.ts';
import { isCallbackHost } from '../workers/submissions/callback-url.ts';
import { isHost, isOrigin } from './http/origins.ts';

export const logLevels = ['fatal', 'error', 'warn', 'info', 'debug', 'trace', 'silent'] as const;

/** Queue drivers of a single node. Several nodes keep their queue in the database that they share. */
export const embeddedDrivers = ['memory', 'sqlite'] as const;

/** Thrown for an invalid setting. The message is one line that says what to fix. */
export class ConfigError extends Error {
  override name = 'ConfigError';
  constructor(variable: string, expected: string, got: string) {
    // `JSON.stringify` does not escape U+2028 and U+2029, which would split the message into several lines.
    const oneLine = got.replace(/[\u2028\u2029]/g, (separator) => `\\u${separator.charCodeAt(0).toString(16)}`);
    super(`${variable} must be ${expected}, got ${oneLine}`);
  }
}

interface Source {
  env: Readonly<Record<string, string | undefined>>;
  terminal: boolean;
  heapLimitBytes: number;
}

type Parser<T> = (source: Source) => T;

type Parsed<Table> = {
  [Name in keyof Table]: Table[Name] extends Parser<infer Value> ? Value : Parsed<Table[Name]>;
};

const MIB = 1024 * 1024;
/** Maximum share of the heap for all byte budgets. Connections, tokens and garbage need the rest. */
const MAX_HEAP_SHARE = 0.5;

const SECRETS = 'whsec_ and base64 of 24 to 64 random bytes, or two of these separated by a comma';
const SECRET = /^whsec_((?:[A-Za-z\d+/]{4})*(?:[A-Za-z\d+/]{2}==|[A-Za-z\d+/]{3}=)?)$/;

const concurrency = integer('TASK_CONCURRENCY', 2, 1, 64);
const overlap = integer('TASK_OVERLAP', 1, 1, 100);
const handlers = text('TASK_HANDLERS');
const callbackHosts = list(
  'CALLBACK_HOSTS',
  isCallbackHost,
  'hosts like example.com or 127.0.0.1:8000, separated by commas',
);
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
    corsOrigins: list('CORS_ORIGINS', isOrigin, 'origins like https://app.example.com, separated by commas'),
    /** Number of trusted reverse proxies. If 0, `X-Forwarded-For` is ignored. */
    trustProxy: integer('TRUST_PROXY', 0, 0, 16),
  },
  admin: {
    // Loopback by default, because clients must not reach the admin listener.
    host: text('ADMIN_HOST', '127.0.0.1'),
    port: listenerPort('ADMIN_PORT', 9464),
  },
  storage: {
    /** URL of the PostgreSQL database that several nodes share. Undefined on a single node. */
    databaseUrl: serverUrl(
      'DATABASE_URL',
      /^postgres(ql)?:\/\/./,
      'a URL like postgres://user:password@127.0.0.1:5432/database',
    ),
    dataDir: text('DATA_DIR', 'data'),
  },
  tokens: {
    /** Secret from which the encryption key of tokens is derived. If undefined, a random secret is used. */
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
    policiesDir: text('POLICIES_DIR'),
    requestsPerMinute: integer('TOKEN_REQUESTS_PER_MINUTE', 1200, 1, 60_000_000),
  },
  ticker: {
    port: listenerPort('TICKER_PORT', 8081),
    intervalMs: integer('TICK_INTERVAL_MS', 1000, 10, 60_000),
    symbols,
    /** Seed for reproducible prices. If undefined, prices are random. */
    seed: text('TICKER_SEED'),
    /** CSV file of recorded prices, or a module that supplies prices. If undefined, prices follow a random walk. */
    priceSource: (source: Source) => (source.env.PRICE_SOURCE === 'walk' ? undefined : text('PRICE_SOURCE')(source)),
    maxConnections: integer('MAX_CONNECTIONS', 50_000, 1, 1_000_000),
    // The default is high, because all clients behind a proxy share one address.
    maxConnectionsPerAddress: integer('MAX_CONNECTIONS_PER_ADDRESS', 25_000, 1, 1_000_000),
    maxMessagesPerSecond: integer('MAX_MESSAGES_PER_SECOND', 50, 2, 1_000_000),
  },
  tasks: {
    port: listenerPort('TASKS_PORT', 8080),
    requireToken: flag('TASKS_REQUIRE_TOKEN'),
    concurrency,
    overlap,
    prefetch: integer('TASK_PREFETCH', (source) => Math.max(5, concurrency(source) * overlap(source)), 1, 10_000),
    /** Timeout of one handler run. The worker thread is then terminated. */
    timeoutMs: integer('TASK_TIMEOUT_MS', 30_000, 1, 86_400_000),
    /** Time for a handler to finish after its abort signal fires. The worker thread is then terminated. */
    cancelGraceMs: integer('TASK_CANCEL_GRACE_MS', 1000, 0, 60_000),
    handlers,
    /** Whether the threads that run a handlers module are in the main process or in a child process. */
    isolation: oneOf('TASK_ISOLATION', 'thread', ['thread', 'process']),
    /** Whether tasks with an unknown action are rejected, as by default with a handlers module, or processed with the output `processed`. */
    unknownActions: oneOf('TASK_UNKNOWN_ACTIONS', (source) => (handlers(source) === undefined ? 'process' : 'reject'), [
      'process',
      'reject',
    ]),
    /** Hosts to which callbacks may be sent, each for the default ports or with the allowed port. */
    callbackHosts,
    /** Keys that sign callbacks. Two while one is replaced. */
    callbackSecrets: variable('CALLBACK_SECRET', [], parseSecrets, SECRETS, () => 'another value'),
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
    driver: queueDriver,
    maxLength: integer('QUEUE_MAX_LENGTH', 100_000, 1),
    maxBytes: integer(
      'QUEUE_MAX_BYTES',
      (source) => (queueDriver(source) === 'memory' ? heapShare(256 * MIB, 8)(source) : 256 * MIB),
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

/** Names of all settings, once the parsers have asked for them. */
const names = new Set<string>();
/** With fewer letters, a setting's name is near to others, such as HOME to HOST. */
const MISSPELLABLE_LENGTH = 8;

/**
 * Reads the settings from environment variables. An empty variable counts as unset.
 *
 * @param terminal whether standard output is a terminal, which makes `pretty` the default log format
 * @param heapLimitBytes heap limit of the main thread, which bounds the default byte budgets
 * @throws {ConfigError} for the first invalid variable, and for a variable with the misspelt name of a setting
 */
export function loadConfig(
  env: Readonly<Record<string, string | undefined>>,
  terminal = false,
  heapLimitBytes = getHeapStatistics().heap_size_limit,
): Config {
  const removed = ['NATS_URL', 'NATS_PREFIX', 'NATS_REPLICAS'].find((name) => env[name]);
  // The error message must not contain the value, because a URL may contain a password.
  if (removed !== undefined) throw new ConfigError(removed, 'unset: set DATABASE_URL and TOKEN_KEY instead', 'a value');
  const get = (_: object, name: string) => {
    names.add(name);
    return env[name];
  };
  const config = parseAll(parsers, { env: new Proxy<Source['env']>(env, { get }), terminal, heapLimitBytes });
  refuseMisspelt(env);
  if (config.storage.databaseUrl !== undefined && config.tokens.key === undefined) {
    throw new ConfigError('TOKEN_KEY', 'set if DATABASE_URL is, to the same value on all nodes', 'nothing');
  }
  if (config.tasks.callbackHosts.length > 0 && config.tasks.callbackSecrets.length === 0)
    throw new ConfigError('CALLBACK_SECRET', `${SECRETS}, if CALLBACK_HOSTS is set`, 'nothing');
  const { seed, priceSource } = config.ticker;
  if (seed !== undefined && priceSource !== undefined) {
    throw new ConfigError('PRICE_SOURCE', 'unset or walk if TICKER_SEED is set', JSON.stringify(priceSource));
  }
  return config;
}

/** @throws {ConfigError} if a variable has nearly the name of a setting */
function refuseMisspelt(env: Source['env']): void {
  for (const name of Object.keys(env)) {
    if (!env[name] || names.has(name)) continue;
    // Two replaced letters make another word, such as PORT of HOST.
    const isMeant = (setting: string) =>
      setting.length >= MISSPELLABLE_LENGTH &&
      editsBetween(name.toUpperCase(), setting) <= (name.length === setting.length ? 1 : 2);
    const meant = [...names].find(isMeant);
    // The value may be a secret.
    if (meant !== undefined) throw new ConfigError(name, `unset: set ${meant} instead`, 'a value');
  }
}

/** @throws {Error} if the byte limits of queue, request bodies and responses exceed half of the heap */
export function checkHeapBudget({ queue, tasks }: Pick<Config, 'queue' | 'tasks'>, heapLimitBytes: number): void {
  // The other drivers keep the queue on disk.
  const queueBytes = queue.driver === 'memory' ? queue.maxBytes : 0;
  const bytes = queueBytes + tasks.bodyBudgetBytes + tasks.responseBudgetBytes;
  if (bytes <= heapLimitBytes * MAX_HEAP_SHARE) return;
  const names = [...(queueBytes > 0 ? ['QUEUE_MAX_BYTES'] : []), 'BODY_BUDGET_BYTES', 'RESPONSE_BUDGET_BYTES'];
  const heapMb = Math.ceil(bytes / MAX_HEAP_SHARE / MIB);
  throw new Error(
    `${names.join(' + ')} is ${mib(bytes)}, more than half of the heap limit of ${mib(heapLimitBytes)}: lower them, or set NODE_OPTIONS=--max-old-space-size=${heapMb}`,
  );
}

function mib(bytes: number): string {
  return `${Math.round(bytes / MIB)} MiB`;
}

/** Returns `postgres` on several nodes. */
function queueDriver(source: Source): (typeof embeddedDrivers)[number] | 'postgres' {
  const { DATABASE_URL, QUEUE_DRIVER } = source.env;
  if (!DATABASE_URL) return oneOf('QUEUE_DRIVER', 'memory', embeddedDrivers)(source);
  if (!QUEUE_DRIVER) return 'postgres';
  throw new ConfigError('QUEUE_DRIVER', 'unset if DATABASE_URL is set', JSON.stringify(QUEUE_DRIVER));
}

function symbols({ env: { TICKER_SYMBOLS } }: Source): readonly TickerSymbol[] {
  if (!TICKER_SYMBOLS) return defaultSymbols;
  const items = TICKER_SYMBOLS.split(',').map((item) => item.trim());
  const refuse = (got: string) => {
    const expected = `1 to ${MAX_SYMBOLS} different symbols with prices, like BTC-USD:42000,DOGE-USD:0.08123`;
    return new ConfigError('TICKER_SYMBOLS', expected, got);
  };
  if (items.length > MAX_SYMBOLS) throw refuse(`${items.length} symbols`);
  const found = new Map<string, TickerSymbol>();
  for (const item of items) {
    const parsed = parseSymbol(item);
    if (parsed === undefined || found.has(parsed.symbol)) throw refuse(JSON.stringify(item));
    found.set(parsed.symbol, parsed);
  }
  return [...found.values()];
}

/** Creates a parser for an environment variable. @param quote formats an invalid value, without revealing secrets */
function variable<T, D extends string | number | boolean | readonly string[] | undefined>(
  name: string,
  fallback: D | Parser<D>,
  parse: (value: string) => T | undefined,
  expected: string,
  quote: (value: string) => string = JSON.stringify,
): Parser<T | D> {
  return (source) => {
    const value = source.env[name];
    if (!value) return typeof fallback === 'function' ? fallback(source) : fallback;
    const parsed = parse(value);
    if (parsed === undefined) throw new ConfigError(name, expected, quote(value));
    return parsed;
  };
}

function text<D extends string | undefined = undefined>(name: string, fallback?: D): Parser<string | D> {
  return ({ env }) => env[name] || (fallback as D);
}

/** Creates a parser for a whole number. @param others end of the error message, for values that the caller accepts */
function integer(
  name: string,
  fallback: number | Parser<number>,
  min: number,
  max = Number.MAX_SAFE_INTEGER,
  others = '',
) {
  const parse = (value: string) => {
    const number = /^\d{1,16}$/.test(value) ? Number(value) : Number.NaN;
    return number >= min && number <= max ? number : undefined;
  };
  const range = max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`;
  return variable(name, fallback, parse, `a whole number ${range}${others}`);
}

/** Creates a parser for a port, which is undefined if there is no listener. */
function listenerPort(name: string, fallback: number): Parser<number | undefined> {
  const parse = integer(name, fallback, 0, 65_535, ', or off');
  return (source) => (source.env[name] === 'off' ? undefined : parse(source));
}

function oneOf<T extends string>(name: string, fallback: T | Parser<T>, choices: readonly T[]): Parser<T> {
  return variable(name, fallback, (value) => choices.find((each) => each === value), `one of ${choices.join(', ')}`);
}

/** Creates a parser for a boolean, false by default. @param aliases further accepted values, such as `1` for true */
function flag(name: string, aliases: Record<string, boolean> = {}): Parser<boolean> {
  const values = new Map(Object.entries({ true: true, false: false, ...aliases }));
  return variable(name, false, (value) => values.get(value), 'one of true, false');
}

/** Creates a parser for a comma-separated list, empty by default. Items are converted to lower case. */
function list(name: string, isValid: (item: string) => boolean, expected: string): Parser<readonly string[]> {
  const parse = (value: string) => {
    const items = value.split(',').map((item) => item.trim());
    return items.every(isValid) ? items.map((item) => item.toLowerCase()) : undefined;
  };
  return variable(name, [], parse, expected);
}

function parseSecrets(value: string): readonly Buffer[] | undefined {
  const keys = value.split(',').map((item) => Buffer.from(SECRET.exec(item.trim())?.[1] ?? '', 'base64'));
  return keys.length <= 2 && keys.every(({ length }) => length >= 24 && length <= 64) ? keys : undefined;
}

/** Creates a parser for a URL whose user name and password are valid percent-encoding. */
function serverUrl(name: string, scheme: RegExp, expected: string): Parser<string | undefined> {
  const isValid = (url: string) => {
    try {
      const { username, password } = new URL(url);
      decodeURIComponent(username + password);
      return scheme.test(url);
    } catch {
      return false;
    }
  };
  const parse = (value: string) => (isValid(value) ? value : undefined);
  // The error message must not contain the value, because a URL may contain a password.
  return variable(name, undefined, parse, expected, () => 'another value');
}

/** Creates the default of a memory limit: `bytes`, or the heap limit divided by `divisor` if that is less. */
function heapShare(bytes: number, divisor: number): Parser<number> {
  return ({ heapLimitBytes }) => Math.min(bytes, Math.floor(heapLimitBytes / divisor));
}

/** Applies all parsers of a nested table. @throws {ConfigError} for the first invalid variable */
function parseAll<Table extends object>(table: Table, source: Source): Parsed<Table> {
  const parse = (each: object) => (typeof each === 'function' ? each(source) : parseAll(each, source));
  return Object.fromEntries(Object.entries(table).map(([name, each]) => [name, parse(each)])) as Parsed<Table>;
}

export const defaults = loadConfig({}, false, Number.POSITIVE_INFINITY) as Config & { admin: { port: number } };

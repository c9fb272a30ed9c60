import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect } from 'chai';
import { ConfigError, checkHeapBudget, defaults, loadConfig, logLevels } from '../main/config.ts';
import { errorOf } from './store/stage.ts';

const MIB = 1024 * 1024;

async function refusal(env: Record<string, string>): Promise<string> {
  const error = await errorOf(() => loadConfig(env));
  expect(error, JSON.stringify(env)).to.be.instanceOf(ConfigError);
  return error.message;
}

/** Returns the defaults with another value for one setting, such as `ticker.port`. */
function defaultsWith(path: string, value: unknown): Record<string, unknown> {
  const [section = '', name] = path.split('.');
  const config: Record<string, unknown> = { ...defaults };
  config[section] = name === undefined ? value : { ...(config[section] as object), [name]: value };
  return config;
}

const SECRET = 'a secret of thirty-two bytes, ok';

/** Section and name of a setting, valid values with their results, and invalid values with their errors. */
interface Variable {
  key: string;
  good: Record<string, unknown>;
  bad: Record<string, string>;
}

const SYMBOLS_EXPECTED = '1 to 64 different symbols with prices, like BTC-USD:42000,DOGE-USD:0.08123';

function oneOf(key: string, ...words: string[]): Variable {
  const good = Object.fromEntries(words.map((word) => [word, word]));
  return { key, good, bad: allBad(`one of ${words.join(', ')}`, `${words[0]}s`, `${words[0]}`.toUpperCase()) };
}

function flag(key: string, ...bad: string[]): Variable {
  return { key, good: { true: true, false: false }, bad: allBad('one of true, false', 'yes', ...bad) };
}

function port(key: string): Variable {
  const good = { '0': 0, '1': 1, '65535': 65_535, '08081': 8081, off: undefined };
  return { key, good, bad: allBad('a whole number from 0 to 65535, or off', '65536', '-1', 'none') };
}

function anyText(key: string, ...texts: string[]): Variable {
  return { key, good: Object.fromEntries(texts.map((text) => [text, text])), bad: {} };
}

const allBad = (expected: string, ...texts: string[]) => Object.fromEntries(texts.map((text) => [text, expected]));

function symbolsNamed(count: number): string {
  return Array.from({ length: count }, (_, number) => `S${number}:1`).join();
}

function wholeNumber(key: string, min: number, max = Number.MAX_SAFE_INTEGER): Variable {
  const expected = `a whole number ${max === Number.MAX_SAFE_INTEGER ? `of at least ${min}` : `from ${min} to ${max}`}`;
  return { key, good: { [min]: min, [max]: max }, bad: { [min - 1]: expected, [max + 1]: expected } };
}

const variables: Record<string, Variable> = {
  HOST: anyText('http.host', '127.0.0.1', '::1', 'localhost'),
  TICKER_PORT: port('ticker.port'),
  TASKS_PORT: port('tasks.port'),
  ADMIN_HOST: anyText('admin.host', '0.0.0.0'),
  ADMIN_PORT: port('admin.port'),
  REUSE_PORT: { ...flag('http.reusePort'), good: { true: true, false: false, '0': false, '1': true } },
  DATA_DIR: anyText('storage.dataDir', '/var/lib/x', ' '),
  TOKEN_KEY: anyText('tokens.key', SECRET, 'ü'.repeat(16)),
  TOKEN_LIFETIME_SECONDS: wholeNumber('tokens.lifetimeSeconds', 1, 3600),
  TOKEN_EXPIRY_CLOSES: flag('tokens.expiryCloses', '1'),
  TASKS_REQUIRE_TOKEN: flag('tasks.requireToken', '1'),
  POLICIES_DIR: anyText('tokens.policiesDir', '/etc/policies'),
  TOKENS_PER_KEY: wholeNumber('tokens.perKey', 1, 100_000),
  TOKEN_REQUESTS_PER_MINUTE: wholeNumber('tokens.requestsPerMinute', 1, 60_000_000),
  ALLOWED_HOSTS: {
    key: 'http.allowedHosts',
    good: {
      '*': ['*'],
      'Ticker.example.com, 10.0.0.1,[2001:db8::1]': ['ticker.example.com', '10.0.0.1', '[2001:db8::1]'],
    },
    bad: allBad(
      'names or addresses without ports, separated by commas, or *',
      ...['a.example:80', 'http://a.example', '::1', 'a b', 'a,,b', '*.a.example'],
    ),
  },
  CORS_ORIGINS: {
    key: 'http.corsOrigins',
    good: {
      'https://app.example.com': ['https://app.example.com'],
      'http://localhost:3000, https://[::1]:8443': ['http://localhost:3000', 'https://[::1]:8443'],
    },
    bad: allBad(
      'origins like https://app.example.com, separated by commas',
      ...['*', 'app.example.com', 'https://app.example.com/', 'https://App.example.com', 'null'],
      ...['https://a.example,', 'ftp://a.example'],
    ),
  },
  TRUST_PROXY: wholeNumber('http.trustProxy', 0, 16),
  TICK_INTERVAL_MS: wholeNumber('ticker.intervalMs', 10, 60_000),
  TICKER_SYMBOLS: {
    key: 'ticker.symbols',
    good: {
      'BTC-USD:42000': [{ symbol: 'BTC-USD', price: 42_000, decimals: 2 }],
      ' DOGE-USD:0.08123 , GOLD:1999.5,A:1000000000000,B-C:0.00000001,D:1.500': [
        { symbol: 'DOGE-USD', price: 0.08123, decimals: 5 },
        { symbol: 'GOLD', price: 1999.5, decimals: 2 },
        { symbol: 'A', price: 1e12, decimals: 2 },
        { symbol: 'B-C', price: 1e-8, decimals: 8 },
        { symbol: 'D', price: 1.5, decimals: 3 },
      ],
      [symbolsNamed(64)]: Array.from({ length: 64 }, (_, n) => ({ symbol: `S${n}`, price: 1, decimals: 2 })),
    },
    bad: allBad(
      SYMBOLS_EXPECTED,
      ...['BTC-USD', 'BTC-USD:0', 'BTC-USD:-1', 'BTC-USD:1e3', 'BTC-USD:0.000000001', 'btc-usd:1', 'A-B-C:1', '-A:1'],
      ...['A:1000000000001', 'A:1000000.00000001', `${'A'.repeat(17)}:1`],
    ),
  },
  PRICE_SOURCE: { key: 'ticker.priceSource', good: { walk: undefined, './source.ts': './source.ts' }, bad: {} },
  TICKER_SEED: anyText('ticker.seed', '42', 'any text'),
  MAX_CONNECTIONS: wholeNumber('ticker.maxConnections', 1, 1_000_000),
  MAX_CONNECTIONS_PER_ADDRESS: wholeNumber('ticker.maxConnectionsPerAddress', 1, 1_000_000),
  MAX_MESSAGES_PER_SECOND: wholeNumber('ticker.maxMessagesPerSecond', 2, 1_000_000),
  TASK_CONCURRENCY: wholeNumber('tasks.concurrency', 1, 64),
  TASK_PREFETCH: wholeNumber('tasks.prefetch', 1, 10_000),
  TASK_RETENTION_ROWS: wholeNumber('retention.rows', 0),
  TASK_RETENTION_DAYS: wholeNumber('retention.days', 0, 36_500),
  QUEUE_DRIVER: oneOf('queue.driver', 'memory', 'sqlite'),
  QUEUE_MAX_LENGTH: wholeNumber('queue.maxLength', 1),
  QUEUE_MAX_BYTES: wholeNumber('queue.maxBytes', 1),
  TASK_TIMEOUT_MS: wholeNumber('tasks.timeoutMs', 1, 86_400_000),
  TASK_CANCEL_GRACE_MS: wholeNumber('tasks.cancelGraceMs', 0, 60_000),
  TASK_OVERLAP: wholeNumber('tasks.overlap', 1, 100),
  TASK_ISOLATION: oneOf('tasks.isolation', 'thread', 'process'),
  TASK_HANDLERS: anyText('tasks.handlers', './handlers.ts', '@own/handlers'),
  TASK_UNKNOWN_ACTIONS: oneOf('tasks.unknownActions', 'process', 'reject'),
  TASK_MEMORY_MB: wholeNumber('tasks.memoryMb', 16, 65_536),
  IDEMPOTENCY_MAX_KEYS: wholeNumber('queue.maxKeys', 1, 10_000_000),
  // A test below has the values that change other budgets.
  BODY_LIMIT: { ...wholeNumber('tasks.bodyLimit', 1, 268_435_456), good: { '1': 1, '12000000': 12_000_000 } },
  BODY_BUDGET_BYTES: { ...wholeNumber('tasks.bodyBudgetBytes', 2), good: { '2097152': 2_097_152 } },
  RESPONSE_BUDGET_BYTES: { ...wholeNumber('tasks.responseBudgetBytes', 4_194_304), good: { '10485760': 10_485_760 } },
  SHUTDOWN_TIMEOUT_MS: wholeNumber('shutdownTimeoutMs', 0, 3_600_000),
  LOG_LEVEL: oneOf('log.level', ...logLevels),
  LOG_FORMAT: oneOf('log.format', 'json', 'pretty'),
};

describe('the configuration', () => {
  it('has the defaults of the guide, which names every variable, and a variable for every setting', () => {
    expect(loadConfig({})).to.deep.equal(defaults);
    const guide = readFileSync(join(import.meta.dirname, '../www/guide/settings.md'), 'utf8');
    const cells = [...guide.matchAll(/^\| ((?:`[A-Z_]+`(?:, )?)+) \| (.*?) \|/gm)];
    const documented = cells.flatMap(([, names = '', values = '']) => {
      const [name, value] = [names, values].map((cell) => Array.from(cell.matchAll(/`([^`]+)`/g), ([, text]) => text));
      return name?.map((each, index) => [each as string, value?.[index]] as const) ?? [];
    });
    // Settings that need another one have tests of their own.
    const others = { DATABASE_URL: 'storage.databaseUrl', CALLBACK_SECRET: 'tasks.callbackSecrets' };
    const all = { ...others, CALLBACK_HOSTS: 'tasks.callbackHosts' };
    expect(documented.map(([name]) => name)).to.have.members([...Object.keys(variables), ...Object.keys(all)]);
    const keys = Object.values(variables).map(({ key }) => key);
    const settings = Object.entries(defaults).flatMap(([section, value]) =>
      typeof value === 'object' ? Object.keys(value).map((name) => `${section}.${name}`) : section,
    );
    expect([...keys, ...Object.values(all)]).to.have.members(settings);
    const sections = defaults as unknown as Record<string, Record<string, unknown>>;
    for (const [name, value] of documented) {
      const [section = '', key = ''] = variables[name]?.key.split('.') ?? [];
      // The default depends on the output.
      if (name === 'LOG_FORMAT') continue;
      if (value !== undefined) expect(loadConfig({ [name]: value }), name).to.deep.equal(defaults);
      else if (section !== '') expect(String(sections[section]?.[key] ?? ''), name).to.equal('');
    }
  });

  it('raises byte budgets that have no room for the largest body, and has smaller default budgets on a small heap', () => {
    const limits = { BODY_LIMIT: '200000000', BODY_BUDGET_BYTES: '2', RESPONSE_BUDGET_BYTES: '4194304' };
    const { bodyBudgetBytes, responseBudgetBytes } = loadConfig(limits).tasks;
    expect([bodyBudgetBytes, responseBudgetBytes]).to.deep.equal([400_000_000, 2_000_000_000]);
    const small = loadConfig({}, false, 512 * MIB);
    const tasks = { ...defaults.tasks, bodyBudgetBytes: 16 * MIB, responseBudgetBytes: 32 * MIB };
    expect(small).to.deep.equal({ ...defaults, queue: { ...defaults.queue, maxBytes: 64 * MIB }, tasks });
    expect(() => checkHeapBudget(small, 512 * MIB)).not.to.throw();
    expect(loadConfig({ QUEUE_MAX_BYTES: '268435456' }, false, 512 * MIB).queue.maxBytes).to.equal(256 * MIB);
  });

  it('by default prefetches as many tasks as can run at once, rejects unknown actions of a handlers module, and has the log format pretty on a terminal', () => {
    expect(loadConfig({}, true)).to.deep.equal(defaultsWith('log.format', 'pretty'));
    expect(loadConfig({ LOG_FORMAT: 'json' }, true).log.format).to.equal('json');
    const many = { TASK_CONCURRENCY: '3', TASK_OVERLAP: '10', TASK_HANDLERS: './handlers.ts' };
    expect(loadConfig(many).tasks).to.include({ prefetch: 30, unknownActions: 'reject' });
    const set = { ...many, TASK_PREFETCH: '7', TASK_UNKNOWN_ACTIONS: 'process' };
    expect(loadConfig(set).tasks).to.include({ prefetch: 7, unknownActions: 'process' });
  });

  it('takes hosts of callbacks with one or two secrets of 24 to 64 bytes', () => {
    const [one, two] = [Buffer.alloc(24, 1), Buffer.alloc(64, 2)];
    const CALLBACK_SECRET = [one, two].map((key) => `whsec_${key.toString('base64')}`).join(', ');
    const CALLBACK_HOSTS = 'Example.com, 127.0.0.1:8000,[::1],[::1]:80,localhost:1,xn--bcher-kva.example';
    const { callbackHosts, callbackSecrets } = loadConfig({ CALLBACK_HOSTS, CALLBACK_SECRET }).tasks;
    const hosts = ['example.com', '127.0.0.1:8000', '[::1]', '[::1]:80', 'localhost:1', 'xn--bcher-kva.example'];
    expect(callbackHosts).to.deep.equal(hosts);
    expect(callbackSecrets).to.deep.equal([one, two]);
  });

  for (const [name, { key, good, bad }] of Object.entries(variables))
    it(`takes ${name}, and its default if it is empty or unset, and refuses any other value with one line`, async () => {
      // The defaults of these two depend on other variables.
      const fixed = { TASK_PREFETCH: '5', TASK_UNKNOWN_ACTIONS: 'process' };
      for (const [text, value] of Object.entries(good))
        expect(loadConfig({ ...fixed, [name]: text }), text).to.deep.equal(defaultsWith(key, value));
      expect(loadConfig({ [name]: '' })).to.deep.equal(defaults);
      expect(loadConfig({ [name]: undefined })).to.deep.equal(defaults);
      for (const [text, expected] of Object.entries(bad))
        expect(await refusal({ [name]: text })).to.equal(`${name} must be ${expected}, got "${text}"`);
    });

  const DATABASE_URL = 'postgres://user:hunter2@host/name';
  const NODE = { DATABASE_URL, TOKEN_KEY: SECRET };
  const SECRET_FORM = 'whsec_ and base64 of 24 to 64 random bytes, or two of these separated by a comma';
  const SECRETS = `${SECRET_FORM}, got another value`;
  const NO_NATS = 'unset: set DATABASE_URL and TOKEN_KEY instead, got a value';
  const HOSTS = 'hosts like example.com or 127.0.0.1:8000, separated by commas';
  const LONG_KEY = 'at least 32 bytes long';
  const URLS = 'a URL like postgres://user:password@127.0.0.1:5432/database, got another value';
  const secretOf = (bytes: number) => `whsec_${Buffer.alloc(bytes, 7).toString('base64')}`;
  /** Values of a setting, each with the words of its refusal, and other settings that it needs. */
  const refused: [name: string, values: Record<string, string>, others?: Record<string, string>][] = [
    ['QUEUE_MAX_LENGTH', allBad('a whole number of at least 1', ...[' 1', '1 ', '1.5', '1e3', '0x10', '+1', '-1'])],
    ['QUEUE_MAX_LENGTH', allBad('a whole number of at least 1', '1_000', '٣', 'Infinity', 'NaN', '12345678901234567')],
    ['TICKER_PORT', { '1\u2028': 'a whole number from 0 to 65535, or off, got "1\\u2028"' }, { TICKER_SYMBOLS: '' }],
    ['TICKER_PORT', { x: 'a whole number from 0 to 65535, or off' }, { TASKS_PORT: 'x' }],
    ['TICKER_SYMBOLS', { 'A\u2029B': `${SYMBOLS_EXPECTED}, got "A\\u2029B"` }],
    ['TICKER_SYMBOLS', { 'A:1,B,C': `${SYMBOLS_EXPECTED}, got "B"` }],
    ['TICKER_SYMBOLS', { 'A:1,A:2': `${SYMBOLS_EXPECTED}, got "A:2"`, 'A:1,': `${SYMBOLS_EXPECTED}, got ""` }],
    ['TICKER_SYMBOLS', { [symbolsNamed(65)]: `${SYMBOLS_EXPECTED}, got 65 symbols` }],
    ['PRICE_SOURCE', { './a.ts': 'unset or walk if TICKER_SEED is set' }, { TICKER_SEED: 'x' }],
    ['TOKEN_KEY', { hunter2: `${LONG_KEY}, got 7 bytes`, ['ü'.repeat(15)]: `${LONG_KEY}, got 30 bytes` }],
    ['CALLBACK_SECRET', allBad(SECRETS, 'hunter2', 'whsec_', secretOf(23), secretOf(65), `${secretOf(24)}=`)],
    ['CALLBACK_SECRET', allBad(SECRETS, Array(3).fill(secretOf(24)).join(), 'whsec_####', secretOf(24).slice(6))],
    ['CALLBACK_SECRET', allBad(SECRETS, `${secretOf(24)},`)],
    ['CALLBACK_SECRET', { '': `${SECRET_FORM}, if CALLBACK_HOSTS is set, got nothing` }, { CALLBACK_HOSTS: 'a' }],
    ['CALLBACK_HOSTS', allBad(HOSTS, 'https://a', '*', '*.a:', 'a/', 'a,', 'a b', 'a@b', 'bücher', 'x'.repeat(254))],
    ['CALLBACK_HOSTS', allBad(HOSTS, '::1', '[0::1]', '127.1', '0x7f000001', '10.0.0.1:', 'a:0', 'a:65536', 'a:1:2')],
    ['TOKEN_KEY', { '': 'set if DATABASE_URL is, to the same value on all nodes, got nothing' }, { DATABASE_URL }],
    ['QUEUE_DRIVER', { memory: 'unset if DATABASE_URL is set' }, NODE],
    ['DATABASE_URL', allBad(URLS, 'mysql://user:hunter2@x', 'postgres://user:hunter2%@x', 'postgres://x:99999'), NODE],
    ['NATS_URL', allBad(NO_NATS, 'nats://user:hunter2@x')],
    ['NATS_PREFIX', allBad(NO_NATS, 'x'), NODE],
    ['NATS_REPLICAS', allBad(NO_NATS, '3')],
  ];
  it('refuses the first invalid value in one line that names the setting, escapes the value, and shows no secret', async () => {
    for (const [name, values, others] of refused)
      for (const [text, expected] of Object.entries(values)) {
        const line = `${name} must be ${expected}${expected.includes(', got ') ? '' : `, got "${text}"`}`;
        expect(await refusal({ ...others, [name]: text })).to.equal(line);
      }
  });

  it('uses PostgreSQL for the queue if DATABASE_URL is set, takes TICKER_SEED together with PRICE_SOURCE=walk, and ignores other variables', () => {
    const { storage, queue } = loadConfig(NODE);
    expect([storage.databaseUrl, queue.driver]).to.deep.equal([DATABASE_URL, 'postgres']);
    expect(loadConfig({ TICKER_SEED: 'x', PRICE_SOURCE: 'walk' }).ticker).to.include({ seed: 'x' });
    const others = { PATH: '/bin', HOME: '/', PORT: 'x', HTTP_PROXY: 'x', TICKER_HOST: 'x', TASK_SIZE: 'x' };
    expect(loadConfig({ ...others, TASK_CONCURENCY: '' })).to.deep.equal(defaults);
  });

  it('refuses a variable within two letters of the name of a setting, without its value', async () => {
    const misspelt = { TOKENKE: 'TOKEN_KEY', TOKEN_KEYSS: 'TOKEN_KEY', ticker_port: 'TICKER_PORT' };
    for (const [name, meant] of Object.entries({ ...misspelt, LOG_LEVLE: 'LOG_LEVEL', DATA_DRI: 'DATA_DIR' }))
      expect(await refusal({ [name]: 'secret' })).to.equal(`${name} must be unset: set ${meant} instead, got a value`);
  });

  it('has budgets of at most half of the heap, without a queue on disk', () => {
    const queue = { ...defaults.queue, maxBytes: 60 * MIB };
    const tasks = { ...defaults.tasks, bodyBudgetBytes: 10 * MIB, responseBudgetBytes: 30 * MIB };
    expect(() => checkHeapBudget({ queue, tasks }, 200 * MIB)).not.to.throw();
    expect(() => checkHeapBudget({ queue: { ...queue, maxBytes: 61 * MIB }, tasks }, 200 * MIB)).to.throw(
      'QUEUE_MAX_BYTES + BODY_BUDGET_BYTES + RESPONSE_BUDGET_BYTES is 101 MiB, more than half of the heap limit of 200 MiB: lower them, or set NODE_OPTIONS=--max-old-space-size=202',
    );
    for (const driver of ['sqlite', 'postgres'] as const) {
      const stored = { queue: { ...queue, driver, maxBytes: 1000 * MIB }, tasks };
      expect(() => checkHeapBudget(stored, 80 * MIB)).not.to.throw();
      expect(() => checkHeapBudget(stored, 79 * MIB)).to.throw(/^BODY_BUDGET_BYTES \+ RESPONSE_BUDGET_BYTES is 40 MiB/);
    }
  });
});

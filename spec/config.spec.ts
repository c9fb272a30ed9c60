import { expect } from 'chai';
import fc from 'fast-check';
import { type Config, ConfigError, defaults, loadConfig, logLevels } from '../main/config.ts';
import { checkHeapBudget } from '../main/heap-budget.ts';
import { anyCharacter } from './support/any-character.ts';

function refusal(env: Record<string, string>): string {
  try {
    loadConfig(env);
  } catch (error) {
    expect(error).to.be.instanceOf(ConfigError);
    return (error as Error).message;
  }
  throw new Error(`${JSON.stringify(env)} is accepted`);
}

const MIB = 1024 * 1024;

const SECRET = 'a secret of thirty-two bytes, ok';

/** Settings that must be set together or not at all. A test below checks them. */
const TOGETHER = ['natsUrl', 'databaseUrl'] as const;

/** For every variable: its setting, valid values with their results, and invalid values with their errors. */
const variables: Record<string, { key: keyof Config; good: Record<string, unknown>; bad: Record<string, string> }> = {
  HOST: { key: 'host', good: { '127.0.0.1': '127.0.0.1', '::1': '::1', localhost: 'localhost' }, bad: {} },
  TICKER_PORT: {
    key: 'tickerPort',
    good: { '0': 0, '1': 1, '65535': 65_535, '08081': 8081 },
    bad: { '65536': 'a whole number from 0 to 65535', '-1': 'a whole number from 0 to 65535' },
  },
  TASKS_PORT: {
    key: 'tasksPort',
    good: { '0': 0, '65535': 65_535 },
    bad: { '65536': 'a whole number from 0 to 65535', http: 'a whole number from 0 to 65535' },
  },
  ADMIN_HOST: { key: 'adminHost', good: { '0.0.0.0': '0.0.0.0' }, bad: {} },
  ADMIN_PORT: {
    key: 'adminPort',
    good: { '0': 0, '65535': 65_535, off: undefined },
    bad: { '65536': 'a whole number from 0 to 65535', none: 'a whole number from 0 to 65535' },
  },
  REUSE_PORT: { key: 'reusePort', good: { '0': false, '1': true }, bad: { true: 'one of 0, 1' } },
  NATS_PREFIX: {
    key: 'natsPrefix',
    good: { a: 'a', 'Test-1_x': 'Test-1_x' },
    bad: { 'a.b': 'up to 32 letters, digits, _ and -', ['x'.repeat(33)]: 'up to 32 letters, digits, _ and -' },
  },
  NATS_REPLICAS: { key: 'natsReplicas', good: { '1': 1, '5': 5 }, bad: { '6': 'a whole number from 1 to 5' } },
  DATA_DIR: { key: 'dataDir', good: { '/var/lib/x': '/var/lib/x', ' ': ' ' }, bad: {} },
  TOKEN_KEY: { key: 'tokenKey', good: { [SECRET]: SECRET, ['ü'.repeat(16)]: 'ü'.repeat(16) }, bad: {} },
  TOKEN_LIFETIME_SECONDS: {
    key: 'tokenLifetimeSeconds',
    good: { '1': 1, '3600': 3600 },
    bad: { '0': 'a whole number from 1 to 3600', '3601': 'a whole number from 1 to 3600' },
  },
  TOKEN_EXPIRY_CLOSES: {
    key: 'tokenExpiryCloses',
    good: { true: true, false: false },
    bad: { yes: 'one of true, false', '1': 'one of true, false' },
  },
  TASKS_REQUIRE_TOKEN: {
    key: 'tasksRequireToken',
    good: { true: true, false: false },
    bad: { yes: 'one of true, false', '1': 'one of true, false' },
  },
  TOKENS_PER_KEY: {
    key: 'tokensPerKey',
    good: { '1': 1, '100000': 100_000 },
    bad: { '0': 'a whole number from 1 to 100000' },
  },
  TOKEN_REQUESTS_PER_MINUTE: {
    key: 'tokenRequestsPerMinute',
    good: { '1': 1, '60000000': 60_000_000 },
    bad: { '0': 'a whole number from 1 to 60000000' },
  },
  ALLOWED_HOSTS: {
    key: 'allowedHosts',
    good: {
      '*': ['*'],
      'Ticker.example.com, 10.0.0.1,[2001:db8::1]': ['ticker.example.com', '10.0.0.1', '[2001:db8::1]'],
    },
    bad: Object.fromEntries(
      ['a.example:80', 'http://a.example', '::1', 'a b', 'a,,b'].map((text) => [
        text,
        'names or addresses without ports, separated by commas, or *',
      ]),
    ),
  },
  CORS_ORIGINS: {
    key: 'corsOrigins',
    good: {
      'https://app.example.com': ['https://app.example.com'],
      'http://localhost:3000, https://[::1]:8443': ['http://localhost:3000', 'https://[::1]:8443'],
    },
    bad: Object.fromEntries(
      ['*', 'app.example.com', 'https://app.example.com/', 'https://App.example.com', 'null', 'https://a.example,'].map(
        (text) => [text, 'origins like https://app.example.com, separated by commas'],
      ),
    ),
  },
  TRUST_PROXY: {
    key: 'trustProxy',
    good: { '0': 0, '16': 16 },
    bad: { '17': 'a whole number from 0 to 16', true: 'a whole number from 0 to 16' },
  },
  TICK_INTERVAL_MS: {
    key: 'tickIntervalMs',
    good: { '10': 10, '60000': 60_000 },
    bad: { '9': 'a whole number from 10 to 60000', '60001': 'a whole number from 10 to 60000' },
  },
  TICKER_SEED: { key: 'tickerSeed', good: { '42': '42', 'any text': 'any text' }, bad: {} },
  MAX_CONNECTIONS: {
    key: 'maxConnections',
    good: { '1': 1, '1000000': 1_000_000 },
    bad: { '0': 'a whole number from 1 to 1000000', '1000001': 'a whole number from 1 to 1000000' },
  },
  MAX_CONNECTIONS_PER_ADDRESS: {
    key: 'maxConnectionsPerAddress',
    good: { '1': 1, '1000000': 1_000_000 },
    bad: { '0': 'a whole number from 1 to 1000000', '1000001': 'a whole number from 1 to 1000000' },
  },
  MAX_MESSAGES_PER_SECOND: {
    key: 'maxMessagesPerSecond',
    good: { '1': 1, '1000000': 1_000_000 },
    bad: { '0': 'a whole number from 1 to 1000000', '1000001': 'a whole number from 1 to 1000000' },
  },
  TASK_CONCURRENCY: {
    key: 'taskConcurrency',
    good: { '1': 1, '64': 64 },
    bad: { '0': 'a whole number from 1 to 64', '65': 'a whole number from 1 to 64' },
  },
  TASK_PREFETCH: {
    key: 'taskPrefetch',
    good: { '1': 1, '10000': 10_000 },
    bad: { '0': 'a whole number from 1 to 10000', '10001': 'a whole number from 1 to 10000' },
  },
  TASK_RETENTION_ROWS: {
    key: 'taskRetentionRows',
    good: { '0': 0, '1': 1, '9007199254740991': Number.MAX_SAFE_INTEGER },
    bad: { '-1': 'a whole number of at least 0' },
  },
  TASK_RETENTION_DAYS: {
    key: 'taskRetentionDays',
    good: { '0': 0, '1': 1, '36500': 36_500 },
    bad: { '36501': 'a whole number from 0 to 36500', '0.5': 'a whole number from 0 to 36500' },
  },
  QUEUE_DRIVER: {
    key: 'queueDriver',
    good: { memory: 'memory', sqlite: 'sqlite' },
    bad: { Memory: 'one of memory, sqlite', redis: 'one of memory, sqlite' },
  },
  QUEUE_MAX_LENGTH: {
    key: 'queueMaxLength',
    good: { '1': 1, '9007199254740991': Number.MAX_SAFE_INTEGER },
    bad: { '0': 'a whole number of at least 1', '9007199254740992': 'a whole number of at least 1' },
  },
  QUEUE_MAX_BYTES: { key: 'queueMaxBytes', good: { '1': 1 }, bad: { '0': 'a whole number of at least 1' } },
  TASK_TIMEOUT_MS: {
    key: 'taskTimeoutMs',
    good: { '1': 1, '86400000': 86_400_000 },
    bad: { '0': 'a whole number from 1 to 86400000', '1e3': 'a whole number from 1 to 86400000' },
  },
  TASK_MEMORY_MB: {
    key: 'taskMemoryMb',
    good: { '16': 16, '65536': 65_536 },
    bad: { '15': 'a whole number from 16 to 65536' },
  },
  IDEMPOTENCY_MAX_KEYS: {
    key: 'idempotencyMaxKeys',
    good: { '1': 1, '10000000': 10_000_000 },
    bad: { '0': 'a whole number from 1 to 10000000' },
  },
  BODY_LIMIT: {
    key: 'bodyLimit',
    good: { '1': 1, '12000000': 12_000_000 },
    bad: { '0': 'a whole number from 1 to 268435456', '268435457': 'a whole number from 1 to 268435456' },
  },
  BODY_BUDGET_BYTES: {
    key: 'bodyBudgetBytes',
    good: { '2097152': 2_097_152, '9007199254740991': Number.MAX_SAFE_INTEGER },
    bad: { '1': 'a whole number of at least 2' },
  },
  RESPONSE_BUDGET_BYTES: {
    key: 'responseBudgetBytes',
    good: { '10485760': 10_485_760, '9007199254740991': Number.MAX_SAFE_INTEGER },
    bad: { '4194303': 'a whole number of at least 4194304' },
  },
  SHUTDOWN_TIMEOUT_MS: {
    key: 'shutdownTimeoutMs',
    good: { '0': 0, '3600000': 3_600_000 },
    bad: { '3600001': 'a whole number from 0 to 3600000', never: 'a whole number from 0 to 3600000' },
  },
  LOG_LEVEL: {
    key: 'logLevel',
    good: Object.fromEntries(logLevels.map((level) => [level, level])),
    bad: {
      INFO: 'one of fatal, error, warn, info, debug, trace, silent',
      verbose: 'one of fatal, error, warn, info, debug, trace, silent',
    },
  },
  LOG_FORMAT: { key: 'logFormat', good: { json: 'json', pretty: 'pretty' }, bad: { text: 'one of json, pretty' } },
};

describe('config', () => {
  it('has the defaults where the environment is silent', () => {
    expect(loadConfig({})).to.deep.equal(defaults);
    expect(defaults).to.deep.equal({
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
      tokensPerKey: 1000,
      tasksRequireToken: false,
      tokenRequestsPerMinute: 1200,
      allowedHosts: [],
      corsOrigins: [],
      trustProxy: 0,
      tickIntervalMs: 1000,
      tickerSeed: undefined,
      maxConnections: 50_000,
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
    });
  });

  it('has byte budgets that have room for the largest body', () => {
    const limits = { BODY_LIMIT: '200000000', BODY_BUDGET_BYTES: '2', RESPONSE_BUDGET_BYTES: '4194304' };
    const { bodyBudgetBytes, responseBudgetBytes } = loadConfig(limits);
    expect([bodyBudgetBytes, responseBudgetBytes]).to.deep.equal([400_000_000, 2_000_000_000]);
  });

  it('has smaller default budgets on a small heap, which fit into it', () => {
    const small = loadConfig({}, false, 512 * MIB);
    const budgets = { queueMaxBytes: 64 * MIB, bodyBudgetBytes: 16 * MIB, responseBudgetBytes: 32 * MIB };
    expect(small).to.deep.equal({ ...defaults, ...budgets });
    expect(() => checkHeapBudget(small, 512 * MIB)).not.to.throw();
    expect(loadConfig({ QUEUE_MAX_BYTES: '268435456' }, false, 512 * MIB).queueMaxBytes).to.equal(256 * MIB);
  });

  it('has a variable for every setting', () => {
    const keys = Object.values(variables).map(({ key }) => key);
    expect([...keys, ...TOGETHER]).to.have.members(Object.keys(defaults));
  });

  for (const [name, { key, good, bad }] of Object.entries(variables)) {
    it(`takes ${name}`, () => {
      for (const [text, value] of Object.entries(good))
        expect(loadConfig({ [name]: text }), text).to.deep.equal({ ...defaults, [key]: value });
      expect(loadConfig({ [name]: '' })).to.deep.equal(defaults);
      expect(loadConfig({ [name]: undefined })).to.deep.equal(defaults);
    });

    for (const [text, expected] of Object.entries(bad)) {
      it(`refuses ${name}=${text}`, () => {
        expect(refusal({ [name]: text })).to.equal(`${name} must be ${expected}, got "${text}"`);
      });
    }
  }

  it('takes nothing but digits for a number', () => {
    for (const text of [
      ' 1',
      '1 ',
      '1.5',
      '1e3',
      '0x10',
      '+1',
      '-1',
      '1_000',
      '٣',
      'Infinity',
      'NaN',
      '12345678901234567',
    ])
      expect(refusal({ QUEUE_MAX_LENGTH: text })).to.equal(
        `QUEUE_MAX_LENGTH must be a whole number of at least 1, got ${JSON.stringify(text)}`,
      );
  });

  it('never shows a secret that is too short', () => {
    expect(refusal({ TOKEN_KEY: 'hunter2' })).to.equal('TOKEN_KEY must be at least 32 bytes long, got 7 bytes');
    expect(refusal({ TOKEN_KEY: 'ü'.repeat(15) })).to.equal('TOKEN_KEY must be at least 32 bytes long, got 30 bytes');
  });

  describe('of several nodes', () => {
    const NATS_URL = 'nats://one:4222,tls://two:4222';
    const DATABASE_URL = 'postgres://user:hunter2@host/name';

    it('takes the addresses of both servers, and the queue that goes with them', () => {
      const config = loadConfig({ NATS_URL, DATABASE_URL, TOKEN_KEY: SECRET });
      expect(config).to.include({ natsUrl: NATS_URL, databaseUrl: DATABASE_URL, queueDriver: 'nats' });
      expect(refusal({ NATS_URL, DATABASE_URL, TOKEN_KEY: SECRET, QUEUE_DRIVER: 'memory' })).to.match(
        /one of nats, got/,
      );
      expect(refusal({ QUEUE_DRIVER: 'nats' })).to.match(/one of memory, sqlite, got/);
    });

    it('asks for one where the other is, and for a key that all have', () => {
      expect(refusal({ NATS_URL })).to.equal('DATABASE_URL must be set if NATS_URL is, got nothing');
      expect(refusal({ DATABASE_URL })).to.equal('NATS_URL must be set if DATABASE_URL is, got nothing');
      expect(refusal({ NATS_URL, DATABASE_URL })).to.equal(
        'TOKEN_KEY must be set if NATS_URL is, to the same value on all nodes, got nothing',
      );
    });

    it('refuses other addresses, and does not show the passwords in them', () => {
      expect(refusal({ NATS_URL: 'http://user:hunter2@x', DATABASE_URL })).to.equal(
        'NATS_URL must be a URL like nats://127.0.0.1:4222, got another value',
      );
      for (const url of ['nats://user:hunter2%@x', 'nats://x:99999', 'nats://x,http://y']) {
        expect(refusal({ NATS_URL: url, DATABASE_URL })).to.match(/^NATS_URL must be a URL like/);
      }
      expect(refusal({ NATS_URL, DATABASE_URL: 'mysql://user:hunter2@x' })).to.equal(
        'DATABASE_URL must be a URL like postgres://127.0.0.1/test, got another value',
      );
    });
  });

  it('names the first variable that is bad', () => {
    expect(refusal({ TASKS_PORT: 'x', TICKER_PORT: 'x' })).to.match(/^TICKER_PORT /);
  });

  it('takes no notice of variables that are not its own', () => {
    expect(loadConfig({ PATH: '/bin', PORT: 'x', ticker_port: 'x', TICKER_PORT_: 'x' })).to.deep.equal(defaults);
  });

  it('logs in colours to a terminal by default', () => {
    expect(loadConfig({}, true)).to.deep.equal({ ...defaults, logFormat: 'pretty' });
    expect(loadConfig({ LOG_FORMAT: 'json' }, true).logFormat).to.equal('json');
    expect(loadConfig({ LOG_FORMAT: 'pretty' }, false).logFormat).to.equal('pretty');
  });

  it('takes any environment or refuses it in one line', () => {
    const names = fc.constantFrom(...Object.keys(variables));
    const values = fc.oneof(fc.string({ unit: anyCharacter }), fc.integer().map(String), fc.constant('a\nb'));
    fc.assert(
      fc.property(fc.dictionary(names, values), (env) => {
        try {
          expect(Object.keys(loadConfig(env))).to.have.members(Object.keys(defaults));
        } catch (error) {
          expect(error).to.be.instanceOf(ConfigError);
          expect((error as Error).message).to.match(/^[A-Z_]+ must be .+, got .+$/);
          expect((error as Error).message).to.not.match(/[\r\n]/);
        }
      }),
    );
  });
});

import type { EventEmitter } from 'node:events';
import { userInfo } from 'node:os';
import type { Duplex } from 'node:stream';
import { Client, type ClientConfig, DatabaseError, defaults, Pool, types } from 'pg';
import { DatabaseUnavailable, ValueRefused } from '../task-store.ts';

export interface PostgresOptions {
  connections: number;
  /** Statement timeout. */
  timeLimitMs: number;
  /** Called when an idle connection is lost. */
  onLost?: (reason: string) => void;
}

export type BoundStatement = readonly [text: string, values: readonly unknown[]];

/**
 * Runs a statement. A statement with values is prepared once per connection.
 *
 * @param timeLimitMs client-side timeout, `Infinity` for none; does not change the timeout on the server
 * @throws {DatabaseUnavailable} if the server does not answer
 * @throws {ValueRefused} if a value is the reason
 * @throws {DatabaseError} if the statement fails for another reason
 */
export type Query = <Row>(text: string, values?: readonly unknown[], timeLimitMs?: number) => Promise<Row[]>;

const CONNECTION = {
  application_name: 'ticker-and-tasks',
  connectionTimeoutMillis: 2000,
  keepAlive: true,
  keepAliveInitialDelayMillis: 10_000,
};
const IDLE_MS = 60_000;
/** Statement timeout of a change of many rows. */
export const LONG_LIMIT_MS = 60_000;
const MAX_WAITING_QUERIES = 1000;
const MS_PER_MILLION_CHARACTERS = 500;
/**
 * A prepared statement keeps its plan while the queue grows from nothing to a million messages. So a plan must not depend
 * on the size of a table: all statements use indexes, and none is compiled.
 */
const SETTINGS = ['seqscan', 'bitmapscan', 'hashjoin', 'mergejoin', 'sort'].map((plan) => `SET enable_${plan} = off;`);

const BEGIN_UNSYNCED = 'BEGIN; SET LOCAL synchronous_commit = off';

/** Added to the client-side timeout, so that the server's more precise timeout error arrives first. */
const GRACE_MS = 500;

/** Names of prepared statements, by text. */
const names = new Map<string, string>();

function nameOf(text: string): string {
  const name = names.get(text) ?? `statement ${names.size + 1}`;
  names.set(text, name);
  return name;
}

/** Client that closes its socket at any error. pg leaves the socket open if the server requires a password that is missing. */
export class PostgresClient extends Client {
  constructor(config?: ClientConfig) {
    super({ ...CONNECTION, ...config });
    // As node:sqlite does. pg would return strings.
    this.setTypeParser(types.builtins.INT8, Number);
    // Without a listener, an `error` event would end the process. The next statement reports the error.
    this.on('error', () => {});
    this.#connection.on('error', () => this.destroy());
  }

  async rows<Row>(text: string, values: readonly unknown[], timeLimitMs: number): Promise<Row[]> {
    const name = values.length > 0 ? nameOf(text) : undefined;
    // For pg, 0 means no timeout.
    const query_timeout = timeLimitMs === Infinity ? 0 : timeLimitMs;
    const config = { name, text, values: [...values], query_timeout };
    return (await this.query(config)).rows;
  }

  /** Closes the connection without waiting for the server. */
  destroy(): void {
    this.#connection.stream.destroy();
  }

  get #connection(): EventEmitter & { stream: Duplex } {
    return (this as unknown as { connection: EventEmitter & { stream: Duplex } }).connection;
  }
}

/** Connection pool for one PostgreSQL database. A lost connection is replaced at the next query. */
export class PostgresDatabase {
  /** The database as `<host>:<port>/<database>`, without the user name and password. */
  readonly address: string;
  readonly #pool: Pool;
  /** Statement timeout. */
  readonly timeLimitMs: number;
  readonly #busy = new Set<PostgresClient>();
  #closed: Promise<void> | undefined;

  /** @throws {Error} with a one-line message if `url` is invalid */
  constructor(url: string, { connections, timeLimitMs, onLost }: PostgresOptions) {
    this.address = addressOf(url);
    this.timeLimitMs = timeLimitMs;
    this.#pool = new Pool({
      ...CONNECTION,
      Client: PostgresClient,
      connectionString: url,
      max: connections,
      idleTimeoutMillis: IDLE_MS,
      statement_timeout: timeLimitMs,
      // Passes first, so that the error of a wait for a lock differs from that of a slow statement.
      lock_timeout: Math.ceil(timeLimitMs * 0.9),
      // A process that stops in a transaction does not hold its locks for long.
      idle_in_transaction_session_timeout: timeLimitMs,
      pipeline: true,
      onConnect: (client) => void client.query(`${SETTINGS.join(' ')} SET jit = off`).catch(() => {}),
    });
    this.#pool.on('error', (error) => onLost?.(reasonOf(error)));
  }

  readonly query: Query = (text, values, timeLimitMs) => this.session((query) => query(text, values, timeLimitMs));

  /**
   * Runs `work` on a dedicated connection. If `work` throws, the connection is closed, which rolls back its transaction
   * and releases its locks.
   */
  async session<T>(work: (query: Query) => Promise<T>): Promise<T> {
    if (this.#pool.waitingCount >= MAX_WAITING_QUERIES)
      throw this.#unavailable('too many queries waiting for a connection');
    const pooled = await this.#pool.connect().catch((error) => {
      if (LACKS_PASSWORD.test(error.message)) throw this.#refused('a password is required');
      throw error instanceof DatabaseError && REFUSED.test(error.code ?? '')
        ? this.#refused(reasonOf(error))
        : this.#unavailable(reasonOf(error));
    });
    const client = pooled as typeof pooled & PostgresClient;
    this.#busy.add(client);
    try {
      const result = await work(this.#queryOn(client));
      client.release();
      return result;
    } catch (error) {
      client.release(true);
      throw error;
    } finally {
      this.#busy.delete(client);
    }
  }

  /** Runs `work` in a transaction, which is rolled back if `work` throws or `isKept` returns false for its result. */
  transaction<T>(
    work: (query: Query) => Promise<T>,
    { timeLimitMs = this.timeLimitMs, isKept = (_: T): boolean => true } = {},
  ): Promise<T> {
    return this.session(async (query) => {
      await query(`BEGIN; SET LOCAL statement_timeout = ${timeLimitMs}`);
      const result = await work((text, values, limitMs = timeLimitMs) => query(text, values, limitMs));
      await query(isKept(result) ? 'COMMIT' : 'ROLLBACK');
      return result;
    });
  }

  /**
   * Runs statements in one transaction and one round trip. Returns the rows of each.
   *
   * @param length total length of the values, which take time to transfer
   * @param isSynced false if the server may lose the transaction at its own crash, within a second of the commit
   */
  batch(statements: readonly BoundStatement[], { length = 0, isSynced = true } = {}): Promise<object[][]> {
    return this.session(async (query) => {
      const timeLimitMs = this.timeLimitMs + (length / 1e6) * MS_PER_MILLION_CHARACTERS;
      const begun = query(isSynced ? 'BEGIN' : BEGIN_UNSYNCED);
      const results = statements.map(([text, values]) => query<object>(text, values, timeLimitMs));
      await Promise.all([begun, ...results, query('COMMIT')]);
      return Promise.all(results);
    });
  }

  /** Runs a query. @throws {DatabaseUnavailable} with the reason if the server does not answer */
  async probe(): Promise<undefined> {
    await this.query('SELECT 1');
  }

  /** Closes all connections. Statements in progress fail. */
  close(): Promise<void> {
    this.#closed ??= this.#pool.end();
    // Not `end`, which waits for statements in progress.
    for (const client of this.#busy) client.destroy();
    return this.#closed;
  }

  #queryOn(client: PostgresClient): Query {
    return (text, values = [], timeLimitMs = this.timeLimitMs) =>
      client.rows<never>(text, values, timeLimitMs + GRACE_MS).catch((error) => {
        if (error instanceof DatabaseError && error.code === LOCK_TIMEOUT)
          throw new DatabaseUnavailable(`PostgreSQL at ${this.address} is busy: ${error.message}`);
        if (!(error instanceof DatabaseError) || UNAVAILABLE.test(error.code ?? ''))
          throw this.#unavailable(reasonOf(error));
        throw VALUE_ERRORS.test(error.code ?? '') ? new ValueRefused(error.message, { cause: error }) : error;
      });
  }

  #refused(reason: string): DatabaseUnavailable {
    return new DatabaseUnavailable(
      `PostgreSQL at ${this.address} refuses the connection: ${reason}: fix DATABASE_URL, ` +
        'for example postgres://user:password@127.0.0.1:5432/database',
    );
  }

  /** The error has no `cause`, because pg's error references the connection and thus the password. */
  #unavailable(reason: string): DatabaseUnavailable {
    return new DatabaseUnavailable(
      `cannot reach PostgreSQL at ${this.address}: ${reason}: start it, or fix DATABASE_URL`,
    );
  }
}

/** Like libpq, uses the name of the operating system's user. pg uses the variable `USER`, which may be unset. */
defaults.user = process.env.PGUSER || systemUser();

function systemUser(): string {
  try {
    return userInfo().username;
  } catch {
    // `userInfo` throws if the user id has no name, as in some containers.
    return 'postgres';
  }
}

function addressOf(url: string): string {
  try {
    const { host, port, database } = new Client({ connectionString: url });
    return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;
  } catch (error) {
    throw new Error(`DATABASE_URL is invalid: ${(error as Error).message}`);
  }
}

/** SQLSTATE prefixes of server and connection errors. `57P` does not match 57014, a canceled statement. */
const UNAVAILABLE = /^(08|28|3D|53|57P)/;

/** SQLSTATE of a statement that waited too long for a lock, as during a change of limits over a long queue. */
const LOCK_TIMEOUT = '55P03';

/** SQLSTATE prefixes of errors caused by a value. Any other error would affect every value. */
const VALUE_ERRORS = /^(22|23|54|P0001)/;

/** SQLSTATE prefixes of a refused connection: wrong user or password, or unknown database. */
const REFUSED = /^(28|3D)/;

const LACKS_PASSWORD = /client password must be a/;

/** SQL expression for a lock key. Contains the schema, because all schemas of a database share their advisory locks. */
const LOCK = "hashtextextended('ticker-and-tasks ' || current_schema() || ' ' || $1, 0)";

/** Waits for the advisory lock for `purpose`, which is held until the transaction ends. */
export async function acquireLock(query: Query, purpose: string): Promise<void> {
  await query(`SELECT pg_advisory_xact_lock(${LOCK})`, [purpose], Infinity);
}

/** Acquires the advisory lock for `purpose` until the transaction ends, unless another connection holds the lock. */
export async function tryLock(query: Query, purpose: string): Promise<boolean> {
  const [lock] = await query<{ acquired: boolean }>(`SELECT pg_try_advisory_xact_lock(${LOCK}) AS acquired`, [purpose]);
  return lock?.acquired === true;
}

/** Returns an error's message as one line. */
export function reasonOf(error: unknown): string {
  const { message, code, errors } = error as AggregateError & { code?: string };
  return String(message || errors?.[0]?.message || code || 'no reason').replace(/\p{Cc}+/gu, ' ');
}

export interface DirectOptions {
  timeLimitMs: number;
  onNotification: (payload: string) => void;
  /** Called, perhaps twice, when the connection ends. */
  onLost: (reason: string) => void;
}

/**
 * Opens a connection outside of the pool, which can receive notifications. The server must be reached directly, because a
 * pooler in transaction mode gives each transaction another connection.
 *
 * @throws {Error} if the server cannot be reached
 */
export async function connectDirectly(
  url: string,
  { timeLimitMs, onNotification, onLost }: DirectOptions,
): Promise<PostgresClient> {
  const client = new PostgresClient({ connectionString: url, statement_timeout: timeLimitMs });
  client.on('error', (error) => onLost(reasonOf(error)));
  client.on('end', () => onLost('the server has closed the connection'));
  client.on('notification', ({ payload }) => onNotification(payload ?? ''));
  await client.connect();
  return client;
}

/** Channel of the current schema. Channels belong to a database, whose schemas may be different deployments. */
export const CHANNEL = "'ticker_and_tasks_' || left(md5(current_schema()), 16)";

export async function listen(query: Query): Promise<void> {
  await query(`DO $$ BEGIN EXECUTE 'LISTEN ' || ${CHANNEL}; END $$`);
}

// A transaction that notifies holds up the commits of the others, so it does not wait for the disk.
const NOTIFY = `SELECT pg_notify(${CHANNEL}, payload)
    FROM set_config('synchronous_commit', 'off', true), unnest($1::text[]) AS payload`;

/** Sends notifications in one transaction. Each payload has less than 8,000 bytes. */
export async function notify(query: Query, payloads: readonly string[]): Promise<void> {
  await query(NOTIFY, [payloads]);
}

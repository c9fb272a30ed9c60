import { userInfo } from 'node:os';
import { Client, DatabaseError, defaults, Pool, type PoolClient, types } from 'pg';
import { DatabaseUnavailable } from '../sqlite/database.ts';
import { lacksPassword, PooledClient } from './client.ts';

export interface PostgresOptions {
  connections: number;
  /** Statement timeout. */
  timeLimitMs: number;
  /** Maximum wait of a statement for a lock. Default: `timeLimitMs`. */
  lockLimitMs?: number;
  /** Called when an idle connection is lost. */
  onLost?: (reason: string) => void;
}

/** SQL text with parameter placeholders. A statement with a `name` is prepared once per connection. */
export type Statement = string | { name?: string; text: string };

/**
 * @param timeLimitMs client-side timeout, `Infinity` for none; does not change the timeout on the server
 * @throws {DatabaseUnavailable} if the server does not answer
 * @throws {DatabaseError} if the statement fails
 */
export type Query = <Row>(statement: Statement, values?: readonly unknown[], timeLimitMs?: number) => Promise<Row[]>;

const CONNECT_LIMIT_MS = 2000;
const KEEP_ALIVE_MS = 10_000;
const IDLE_MS = 60_000;
const MAX_WAITING_QUERIES = 1000;
/** Added to the client-side timeout, so that the server's more precise timeout error arrives first. */
const GRACE_MS = 500;

/** Connection pool for one PostgreSQL database. A lost connection is replaced at the next query. */
export class PostgresDatabase {
  /** The database as `<host>:<port>/<database>`, without the user name and password. */
  readonly address: string;
  readonly #pool: Pool;
  readonly #timeLimitMs: number;
  readonly #busy = new Set<PoolClient>();
  #closed: Promise<void> | undefined;

  /** @throws {Error} with a one-line message if `url` is invalid */
  constructor(url: string, { connections, timeLimitMs, lockLimitMs = timeLimitMs, onLost }: PostgresOptions) {
    this.address = addressOf(url);
    this.#timeLimitMs = timeLimitMs;
    this.#pool = new Pool({
      Client: PooledClient,
      connectionString: url,
      application_name: 'ticker-and-tasks',
      max: connections,
      connectionTimeoutMillis: CONNECT_LIMIT_MS,
      idleTimeoutMillis: IDLE_MS,
      statement_timeout: timeLimitMs,
      lock_timeout: lockLimitMs,
      keepAlive: true,
      keepAliveInitialDelayMillis: KEEP_ALIVE_MS,
      types: { getTypeParser },
    });
    this.#pool.on('error', (error) => onLost?.(reasonOf(error)));
    // Without a listener, an `error` event would end the process. The next statement reports the error.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  readonly query: Query = (statement, values, timeLimitMs) =>
    this.session((query) => query(statement, values, timeLimitMs));

  /**
   * Runs `work` on a dedicated connection. If `work` throws, the connection is closed, which rolls back its transaction
   * and releases its locks.
   */
  async session<T>(work: (query: Query) => Promise<T>): Promise<T> {
    if (this.#pool.waitingCount >= MAX_WAITING_QUERIES)
      throw this.#unavailable('too many queries waiting for a connection');
    const client = await this.#pool.connect().catch((error) => {
      if (lacksPassword(error)) throw this.#refused('a password is required');
      throw error instanceof DatabaseError && REFUSED.test(error.code ?? '')
        ? this.#refused(reasonOf(error))
        : this.#unavailable(reasonOf(error));
    });
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

  /** Runs `work` in a transaction, which is rolled back if `work` throws. */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.session(async (query) => {
      await query('BEGIN');
      const result = await work(query);
      await query('COMMIT');
      return result;
    });
  }

  /** Runs a query. @throws {DatabaseUnavailable} with the reason if the server does not answer */
  async probe(): Promise<undefined> {
    await this.query('SELECT 1');
  }

  /** Closes all connections. Statements in progress fail. */
  close(): Promise<void> {
    this.#closed ??= this.#pool.end();
    // Not awaited, because `end` never settles if the server is unreachable.
    for (const client of this.#busy) void (client as PoolClient & Client).end();
    return this.#closed;
  }

  #queryOn(client: PoolClient): Query {
    return async (statement, values = [], timeLimitMs = this.#timeLimitMs) => {
      const text = typeof statement === 'string' ? { text: statement } : statement;
      // For pg, 0 means no timeout.
      const query_timeout = timeLimitMs === Infinity ? 0 : timeLimitMs + GRACE_MS;
      const config = { ...text, values: [...values], query_timeout };
      const { rows } = await client.query(config).catch((error) => {
        const isOfStatement = error instanceof DatabaseError && !UNAVAILABLE.test(error.code ?? '');
        throw isOfStatement ? error : this.#unavailable(reasonOf(error));
      });
      return rows;
    };
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

const BIGINT_OID = 20;

/** Parses `bigint` values as numbers, as node:sqlite does. pg would return strings. */
const getTypeParser: typeof types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  oid === BIGINT_OID ? Number : types.getTypeParser(oid, format as 'text');

/** SQLSTATE prefixes of server and connection errors. `57P` does not match 57014, a canceled statement. */
const UNAVAILABLE = /^(08|28|3D|53|57P)/;

/** SQLSTATE prefixes of a refused connection: wrong user or password, or unknown database. */
const REFUSED = /^(28|3D)/;

/** Returns an error's message as one line. */
export function reasonOf(error: unknown): string {
  const { message, code, errors } = error as AggregateError & { code?: string };
  return String(message || errors?.[0]?.message || code || 'no reason').replace(/\p{Cc}+/gu, ' ');
}

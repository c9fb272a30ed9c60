import { Client, DatabaseError, Pool, type PoolClient, types } from 'pg';
import { DatabaseUnavailable } from '../sqlite/database.ts';

export interface PostgresOptions {
  /** Maximum number of connections in the pool. */
  connections: number;
  /** Statement timeout. */
  timeLimitMs: number;
  /** Longest wait of a statement for a lock. Default: `timeLimitMs`. */
  lockLimitMs?: number;
  /** Called with the reason when an idle connection is lost. */
  onLost?: (reason: string) => void;
}

/** An SQL text with placeholders for parameters. If the statement has a name, each connection prepares it only once. */
export type Statement = string | { name?: string; text: string };

/**
 * Runs one statement.
 *
 * @param timeLimitMs client-side timeout of this statement; the server-side timeout is always that of {@link PostgresOptions}
 * @throws {DatabaseUnavailable} if the server does not answer
 * @throws {DatabaseError} if the statement fails
 */
export type Query = <Row>(statement: Statement, values?: readonly unknown[], timeLimitMs?: number) => Promise<Row[]>;

const CONNECT_LIMIT_MS = 2000;
/** Idle time before the first TCP keep-alive probe. The probes detect connections that the network dropped silently. */
const KEEP_ALIVE_MS = 10_000;
/** Idle time after which a pooled connection is closed. */
const IDLE_MS = 60_000;
/** Maximum number of queries that wait for a connection. Further queries fail at once. */
const MAX_WAITING = 1000;
/** Time by which the client-side timeout exceeds the server's, so that the server's more precise error arrives first. */
const GRACE_MS = 500;

/** Connection pool for one PostgreSQL database. Lost connections are replaced when the next query needs one. */
export class PostgresDatabase {
  /** Address as `<host>:<port>/<name>`, without user and password. */
  readonly address: string;
  readonly #pool: Pool;
  readonly #timeLimitMs: number;
  /** Connections in use, which `close` ends. */
  readonly #busy = new Set<PoolClient>();
  #closed: Promise<void> | undefined;

  /** @throws {Error} with a one-line message if `url` is invalid */
  constructor(url: string, { connections, timeLimitMs, lockLimitMs = timeLimitMs, onLost }: PostgresOptions) {
    this.address = addressOf(url);
    this.#timeLimitMs = timeLimitMs;
    this.#pool = new Pool({
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
    // An `error` event without a listener would end the process. It is ignored, because the connection's next statement fails.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  /** Runs one statement on any connection of the pool. */
  readonly query: Query = (statement, values, timeLimitMs) =>
    this.session((query) => query(statement, values, timeLimitMs));

  /**
   * Runs `work` on a connection that nothing else uses in the meantime. If `work` throws, the connection is closed, which rolls
   * back its transaction and releases its locks.
   *
   * @throws {DatabaseUnavailable} if no connection can be obtained, and any error of `work`
   */
  async session<T>(work: (query: Query) => Promise<T>): Promise<T> {
    if (this.#pool.waitingCount >= MAX_WAITING) throw this.#unavailable('too many queries wait for a connection');
    const client = await this.#pool.connect().catch((error) => {
      throw this.#unavailable(reasonOf(error));
    });
    this.#busy.add(client);
    try {
      const result = await work((statement, values = [], timeLimitMs = this.#timeLimitMs) =>
        this.#run(client, statement, values, timeLimitMs),
      );
      client.release();
      return result;
    } catch (error) {
      client.release(true);
      throw error;
    } finally {
      this.#busy.delete(client);
    }
  }

  /** Runs `work` in a transaction, which is rolled back if `work` throws. @throws the errors of {@link session} */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.session(async (query) => {
      await query('BEGIN');
      const result = await work(query);
      await query('COMMIT');
      return result;
    });
  }

  /** Checks the server with a query. @throws {DatabaseUnavailable} with the reason if the server does not answer */
  async probe(): Promise<undefined> {
    await this.query('SELECT 1');
  }

  /** Closes all connections. Running statements fail. Later calls return the same promise. */
  close(): Promise<void> {
    this.#closed ??= this.#pool.end();
    // Ends connections in use without awaiting the promise, which never settles if the server is unreachable.
    for (const client of this.#busy) void (client as PoolClient & Client).end();
    return this.#closed;
  }

  async #run<Row>(
    client: PoolClient,
    statement: Statement,
    values: readonly unknown[],
    limitMs: number,
  ): Promise<Row[]> {
    const text = typeof statement === 'string' ? { text: statement } : statement;
    const config = { ...text, values: [...values], query_timeout: limitMs + GRACE_MS };
    const { rows } = await client.query(config).catch((error) => {
      throw isStatementError(error) ? error : this.#unavailable(reasonOf(error));
    });
    return rows;
  }

  /** Returns an error without a cause, because the original error references the connection and so the password. */
  #unavailable(reason: string): DatabaseUnavailable {
    return new DatabaseUnavailable(
      `cannot reach PostgreSQL at ${this.address}: ${reason}: start it, or fix DATABASE_URL`,
    );
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

/** PostgreSQL's object identifier (OID) of type `bigint`. */
const BIGINT = 20;

/** Parses `bigint` values to numbers, as node:sqlite does. By default, pg returns strings. */
const getTypeParser: typeof types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  oid === BIGINT ? Number : types.getTypeParser(oid, format as 'text');

/** SQLSTATE prefixes of errors that concern the server, not the statement. 57P excludes 57014, which is a canceled statement. */
const UNAVAILABLE = /^(08|28|3D|53|57P)/;

function isStatementError(error: unknown): boolean {
  return error instanceof DatabaseError && !UNAVAILABLE.test(error.code ?? '');
}

/** Returns an error's message in one line. */
export function reasonOf(error: unknown): string {
  const { message, code, errors } = error as AggregateError & { code?: string };
  return String(message || errors?.[0]?.message || code || 'no reason').replace(/\p{Cc}+/gu, ' ');
}

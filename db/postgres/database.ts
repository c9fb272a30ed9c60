import { Client, DatabaseError, Pool, type PoolClient, types } from 'pg';
import { DatabaseUnavailable } from '../database.ts';

export interface PostgresOptions {
  /** Connections at most. */
  connections: number;
  /** How long a statement may take, with the way there and back. */
  timeLimitMs: number;
  /** How long it may wait for what another connection has locked; that long in all where absent. */
  lockLimitMs?: number;
  /** Told of a connection that was lost while nobody used it. */
  onLost?: (reason: string) => void;
}

/** A text with parameters; where it has a name, each connection prepares it once. */
export interface Statement {
  name?: string;
  text: string;
}

/**
 * Runs one statement.
 *
 * @param timeLimitMs another limit than that of the database
 * @throws {DatabaseUnavailable} when the server does not answer, its own error when the statement fails
 */
export type Query = <Row>(statement: Statement, values?: readonly unknown[], timeLimitMs?: number) => Promise<Row[]>;

const CONNECT_LIMIT_MS = 2000;
/** A connection that the network swallowed is found out although nothing is sent on it. */
const KEEP_ALIVE_MS = 10_000;
const IDLE_MS = 60_000;
/** Past it, queries fail at once instead of waiting for a connection. */
const MAX_WAITING = 1000;
/** The server gives up first where it can: what it says is worth more. */
const GRACE_MS = 500;

/** One database of a PostgreSQL server. Connections are made as they are needed: service goes on by itself once the server is back. */
export class PostgresDatabase {
  /** `<host>:<port>/<name>`, without user and password. */
  readonly address: string;
  readonly #pool: Pool;
  readonly #timeLimitMs: number;
  /** Those on which something runs. */
  readonly #busy = new Set<PoolClient>();
  #closed: Promise<void> | undefined;

  /** @throws {Error} with one line when `url` cannot be understood */
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
    // One that is lost between two statements of a session: the next of them fails.
    this.#pool.on('connect', (client) => client.on('error', () => {}));
  }

  /** Runs one statement on any connection. As {@link Query}. */
  readonly query: Query = (statement, values, timeLimitMs) =>
    this.session((query) => query(statement, values, timeLimitMs));

  /**
   * Runs `work` on a connection that is its own meanwhile. An error takes the connection with it, and with that whatever it
   * held: a transaction, a lock.
   *
   * @throws {DatabaseUnavailable} when there is no connection to be had, and whatever `work` throws
   */
  async session<T>(work: (query: Query) => Promise<T>): Promise<T> {
    const client = await this.#connect();
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

  /** Runs `work` in a transaction of its own: all of it is written or nothing. @throws as {@link session} */
  transaction<T>(work: (query: Query) => Promise<T>): Promise<T> {
    return this.session(async (query) => {
      await query({ text: 'BEGIN' });
      const result = await work(query);
      await query({ text: 'COMMIT' });
      return result;
    });
  }

  /** Whether the server answers. @throws {DatabaseUnavailable} that says why it does not */
  async probe(): Promise<undefined> {
    await this.query({ text: 'SELECT 1' });
  }

  /** Closes all connections for good; what still runs on one fails. Calling it again waits for the same. */
  close(): Promise<void> {
    this.#closed ??= this.#end();
    return this.#closed;
  }

  async #end(): Promise<void> {
    const ended = this.#pool.end();
    // Not waited for: a server that is cut off does not take its leave.
    for (const client of this.#busy) void (client as PoolClient & Client).end();
    await ended;
  }

  async #connect(): Promise<PoolClient> {
    if (this.#pool.waitingCount >= MAX_WAITING) throw this.#unavailable('too many queries wait for a connection');
    return this.#pool.connect().catch((error) => {
      throw this.#unavailable(reasonOf(error));
    });
  }

  async #run<Row>(
    client: PoolClient,
    statement: Statement,
    values: readonly unknown[],
    limitMs: number,
  ): Promise<Row[]> {
    const config = { ...statement, values: [...values], query_timeout: limitMs + GRACE_MS };
    const { rows } = await client.query(config).catch((error) => {
      throw isOfStatement(error) ? error : this.#unavailable(reasonOf(error));
    });
    return rows;
  }

  /** Without the error as its cause: that holds the connection, and with it the password. */
  #unavailable(reason: string): DatabaseUnavailable {
    return new DatabaseUnavailable(
      `cannot reach PostgreSQL at ${this.address}: ${reason}: start it, or mend DATABASE_URL`,
    );
  }
}

function addressOf(url: string): string {
  try {
    const { host, port, database } = new Client({ connectionString: url });
    return `${host.includes(':') ? `[${host}]` : host}:${port}/${database}`;
  } catch (error) {
    throw new Error(`DATABASE_URL cannot be read (${(error as Error).message}): mend it`);
  }
}

/** Numbers that SQLite gives as numbers come as texts else. */
const BIGINT = 20;

const getTypeParser: typeof types.getTypeParser = (oid: number, format?: 'text' | 'binary') =>
  oid === BIGINT ? Number : types.getTypeParser(oid, format as 'text');

/** SQLSTATE classes of a server that cannot serve this connection, whatever it is asked: 57P, but for a statement that was cancelled. */
const UNAVAILABLE = /^(08|28|3D|53|57P)/;

function isOfStatement(error: unknown): boolean {
  return error instanceof DatabaseError && !UNAVAILABLE.test(error.code ?? '');
}

/** One line that says what went wrong. */
export function reasonOf(error: unknown): string {
  const { message, code, errors } = error as AggregateError & { code?: string };
  return String(message || errors?.[0]?.message || code || 'no reason').replace(/\p{Cc}+/gu, ' ');
}

import { DatabaseError } from 'pg';
import { type ArrivedTask, LISTING_SIZE, type TaskLocation, type TaskRecord, type WriteFailure } from '../tasks.ts';
import type { PostgresDatabase } from './database.ts';

const COLUMNS = 'id, payload, status, result, created_at, processed_at';
const BYTES = 'octet_length(payload) + coalesce(octet_length(result), 0)';
const NEWEST = `ORDER BY created_at DESC, arrival DESC LIMIT ${LISTING_SIZE}`;
// Not by `=`, after which any index in the order of creation looks as good: it is gone through to its end where few rows, or
// none, have the status.
const OF_STATUS = `WHERE status BETWEEN $1 AND $1 ORDER BY status DESC, created_at DESC, arrival DESC LIMIT ${LISTING_SIZE}`;

const LIST = { name: 'list', text: `SELECT ${COLUMNS} FROM tasks ${NEWEST}` };
const LIST_STATUS = { name: 'list-status', text: `SELECT ${COLUMNS} FROM tasks ${OF_STATUS}` };
const LOCATE = { name: 'locate', text: `SELECT id, ${BYTES} AS bytes FROM tasks ${NEWEST}` };
const LOCATE_STATUS = {
  name: 'locate-status',
  text: `SELECT id, ${BYTES} AS bytes FROM tasks ${OF_STATUS}`,
};
const FIND = { name: 'find', text: `SELECT ${COLUMNS} FROM tasks WHERE id = $1` };

/** The statements of this file, for those who look how PostgreSQL carries them out. */
export const taskStatements = { LIST, LIST_STATUS, LOCATE, LOCATE_STATUS, FIND };

// A row that is written again keeps its place in the order of arrival.
const ON_CONFLICT = `ON CONFLICT (id) DO UPDATE SET payload = excluded.payload, status = excluded.status,
  result = excluded.result, created_at = excluded.created_at, processed_at = excluded.processed_at`;
const LATEST = '(extract(epoch FROM statement_timestamp()) * 1000000)::bigint';
const STORE = {
  name: 'store',
  text: `INSERT INTO tasks (${COLUMNS}, arrival) VALUES ($1, $2, $3, $4, $5, $6, coalesce($7, ${LATEST})) ${ON_CONFLICT}`,
};
const STORE_ALL = {
  name: 'store-all',
  text: `INSERT INTO tasks (${COLUMNS}, arrival)
    SELECT ${COLUMNS}, coalesce(arrival, ${LATEST} + place)
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
      WITH ORDINALITY AS row (${COLUMNS}, arrival, place) ${ON_CONFLICT}`,
};

/** Text that goes to the server in one statement, but for a row that has more alone: the server takes 1 GiB at most. */
const STATEMENT_LENGTH = 8 * 1024 * 1024;
/** What a statement is given beyond the usual limit for each million characters. */
const MS_BY_MILLION = 500;

/** The stored tasks in PostgreSQL: table `tasks` of the specification. Every method throws as {@link PostgresDatabase.query}. */
export class PostgresTasks {
  readonly #database: PostgresDatabase;
  readonly #timeLimitMs: number;

  /** @param timeLimitMs how long it may take to store a few small rows */
  constructor(database: PostgresDatabase, timeLimitMs = 2000) {
    this.#database = database;
    this.#timeLimitMs = timeLimitMs;
  }

  /** Which rows {@link list} gives, newest first, and how many bytes their texts have: cheap, however large they are. */
  async locate(status?: string): Promise<TaskLocation[]> {
    if (status === undefined) return this.#database.query<TaskLocation>(LOCATE);
    return isText(status) ? this.#database.query<TaskLocation>(LOCATE_STATUS, [status]) : [];
  }

  /** The row of the task with that id, if there is one. */
  async find(id: string): Promise<TaskRecord | undefined> {
    return isText(id) ? (await this.#database.query<TaskRecord>(FIND, [id]))[0] : undefined;
  }

  /** The newest rows, at most {@link LISTING_SIZE}, only those of `status` where one is given. */
  async list(status?: string): Promise<TaskRecord[]> {
    if (status === undefined) return this.#database.query<TaskRecord>(LIST);
    return isText(status) ? this.#database.query<TaskRecord>(LIST_STATUS, [status]) : [];
  }

  /**
   * Writes the rows of tasks that were worked off, each in the place of an earlier row with its id: in one statement where that
   * works, each for itself where one of them is refused. Of several rows with one id the last is written.
   *
   * @returns for each of them, in order, why it was not written: because of itself, or because nothing can be
   */
  async storeAll(tasks: readonly ArrivedTask[]): Promise<ReadonlyArray<WriteFailure | undefined>> {
    const failures = new Map<string, WriteFailure>();
    let away: WriteFailure | undefined;
    const parts = split([...new Map(tasks.map((task) => [task.id, task])).values()]);
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      const failure = away ?? (await this.#attempt(part));
      if (failure === undefined) continue;
      if (failure.ofRow && part.length > 1) {
        parts.unshift(...part.map((task) => [task]));
      } else {
        // What nothing can be done about would be met, and waited for, by all that follow.
        if (!failure.ofRow) away = failure;
        for (const { id } of part) failures.set(id, failure);
      }
    }
    return tasks.map(({ id }) => failures.get(id));
  }

  async #attempt(part: readonly ArrivedTask[]): Promise<WriteFailure | undefined> {
    const rows = part.map(valuesOf);
    const limitMs = this.#timeLimitMs + (part.reduce((sum, task) => sum + lengthOf(task), 0) / 1e6) * MS_BY_MILLION;
    try {
      if (rows.length === 1) await this.#database.query(STORE, rows[0], limitMs);
      else
        await this.#database.query(
          STORE_ALL,
          rows[0]?.map((_, column) => rows.map((row) => row[column])),
          limitMs,
        );
      return undefined;
    } catch (error) {
      return { error, ofRow: concernsRow(error) };
    }
  }
}

/** In the order of the statements' parameters. */
function valuesOf({ id, payload, status, result, created_at, processed_at, arrival = null }: ArrivedTask): unknown[] {
  return [id, payload, status, result, created_at, processed_at, arrival];
}

/** Of the texts; more or less, since nothing has looked at them yet. */
function lengthOf({ payload, result }: ArrivedTask): number {
  return (payload?.length ?? 0) + (result?.length ?? 0);
}

function split(tasks: readonly ArrivedTask[]): ArrivedTask[][] {
  const parts: ArrivedTask[][] = [];
  let length = Number.POSITIVE_INFINITY;
  for (const task of tasks) {
    length += lengthOf(task);
    if (length > STATEMENT_LENGTH) {
      parts.push([]);
      length = lengthOf(task);
    }
    parts.at(-1)?.push(task);
  }
  return parts;
}

/** PostgreSQL keeps no text with a NUL in it: no row has one. */
function isText(text: string): boolean {
  return !text.includes('\0');
}

/**
 * SQLSTATE classes of values that are not taken: data exceptions, broken constraints, what exceeds a limit (an id that is too
 * long for an index), and what a trigger raises. Any other error would be met by every row.
 */
const VALUE_ERRORS = /^(22|23|54|P0001)/;

function concernsRow(error: unknown): boolean {
  return error instanceof DatabaseError && VALUE_ERRORS.test(error.code ?? '');
}

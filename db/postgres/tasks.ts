import { DatabaseError } from 'pg';
import {
  HEAD_LENGTH,
  type OrderedTask,
  SUMMARY_LENGTH,
  type TaskLocation,
  type TaskRecord,
  type TaskSummary,
  type WriteFailure,
} from '../sqlite/tasks.ts';
import type { TaskFilter, TaskPosition } from '../task-filter.ts';
import type { PostgresDatabase } from './database.ts';
import { listingQuery } from './task-listing.ts';

const COLUMNS = 'id, payload, status, result, created_at, processed_at';
const LOCATION = 'id, octet_length(payload) + coalesce(octet_length(result), 0) AS bytes';
const SUMMARY = `id, substr(payload, 1, ${SUMMARY_LENGTH}) AS payload, octet_length(payload) AS payload_bytes, status,
  substr(result, 1, ${SUMMARY_LENGTH}) AS result, octet_length(result) AS result_bytes, created_at, processed_at,
  substr(payload, 1, ${HEAD_LENGTH}) AS head`;

const FIND = { name: 'find', text: `SELECT ${COLUMNS} FROM tasks WHERE id = $1` };
const FIND_SUMMARY = { name: 'find-summary', text: `SELECT ${SUMMARY} FROM tasks WHERE id = $1` };
const POSITION = { name: 'position', text: 'SELECT created_at AS "createdAt", arrival FROM tasks WHERE id = $1' };

/** Exported, so that a spec can check the query plans. */
export const taskStatements = { FIND, FIND_SUMMARY, POSITION };

// Does not update `arrival`, so that a replaced row keeps its position in the order of arrival.
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
    SELECT ${COLUMNS}, coalesce(arrival, ${LATEST} + ordinal)
    FROM unnest($1::text[], $2::text[], $3::text[], $4::text[], $5::bigint[], $6::bigint[], $7::bigint[])
      WITH ORDINALITY AS row (${COLUMNS}, arrival, ordinal) ${ON_CONFLICT}`,
};

const MAX_STATEMENT_LENGTH = 8 * 1024 * 1024;
const MS_PER_MILLION_CHARACTERS = 500;

/** Tasks in the PostgreSQL table `tasks`. Methods throw `DatabaseUnavailable` or `DatabaseError`. */
export class PostgresTasks {
  readonly #database: PostgresDatabase;
  readonly #timeLimitMs: number;

  /** @param timeLimitMs timeout for storing a few small rows; larger writes have a longer timeout */
  constructor(database: PostgresDatabase, timeLimitMs = 2000) {
    this.#database = database;
    this.#timeLimitMs = timeLimitMs;
  }

  /** Returns the ids and sizes of the rows that {@link list} returns. */
  locate(filter: TaskFilter = {}): Promise<TaskLocation[]> {
    return this.#newest('locate', LOCATION, filter);
  }

  async find(id: string): Promise<TaskRecord | undefined> {
    return isText(id) ? (await this.#database.query<TaskRecord>(FIND, [id]))[0] : undefined;
  }

  async findSummary(id: string): Promise<TaskSummary | undefined> {
    return isText(id) ? (await this.#database.query<TaskSummary>(FIND_SUMMARY, [id]))[0] : undefined;
  }

  async position(id: string): Promise<TaskPosition | undefined> {
    return isText(id) ? (await this.#database.query<TaskPosition>(POSITION, [id]))[0] : undefined;
  }

  /** Returns up to `LISTING_SIZE` matching rows, newest first. */
  list(filter: TaskFilter = {}): Promise<TaskRecord[]> {
    return this.#newest('list', COLUMNS, filter);
  }

  summarize(filter: TaskFilter = {}): Promise<TaskSummary[]> {
    return this.#newest('summarize', SUMMARY, filter);
  }

  async #newest<Row>(name: string, columns: string, filter: TaskFilter): Promise<Row[]> {
    if (filter.status !== undefined && !isText(filter.status)) return [];
    const { statement, values } = listingQuery(name, columns, filter);
    return this.#database.query<Row>(statement, values);
  }

  /** Writes rows, replacing rows with the same ids. Returns the failure of each row, or undefined for a written row. */
  async storeAll(tasks: readonly OrderedTask[]): Promise<ReadonlyArray<WriteFailure | undefined>> {
    const failures = new Map<string, WriteFailure>();
    let outage: WriteFailure | undefined;
    const parts = split([...new Map(tasks.map((task) => [task.id, task])).values()]);
    for (let part = parts.shift(); part !== undefined; part = parts.shift()) {
      const failure = outage ?? (await this.#write(part));
      if (failure === undefined) continue;
      if (failure.ofRow && part.length > 1) {
        parts.unshift(...part.map((task) => [task]));
      } else {
        // After a server failure, skips the remaining rows, because each statement would wait for its timeout.
        if (!failure.ofRow) outage = failure;
        for (const { id } of part) failures.set(id, failure);
      }
    }
    return tasks.map(({ id }) => failures.get(id));
  }

  async #write(part: readonly OrderedTask[]): Promise<WriteFailure | undefined> {
    const rows = part.map(valuesOf);
    const columns = rows[0]?.map((_, column) => rows.map((row) => row[column]));
    const length = part.reduce((sum, task) => sum + lengthOf(task), 0);
    const limitMs = this.#timeLimitMs + (length / 1e6) * MS_PER_MILLION_CHARACTERS;
    try {
      if (rows.length === 1) await this.#database.query(STORE, rows[0], limitMs);
      else await this.#database.query(STORE_ALL, columns, limitMs);
      return undefined;
    } catch (error) {
      return { error, ofRow: error instanceof DatabaseError && VALUE_ERRORS.test(error.code ?? '') };
    }
  }
}

function valuesOf({ id, payload, status, result, created_at, processed_at, arrival = null }: OrderedTask): unknown[] {
  return [id, payload, status, result, created_at, processed_at, arrival];
}

function lengthOf({ payload, result }: OrderedTask): number {
  return (payload?.length ?? 0) + (result?.length ?? 0);
}

function split(tasks: readonly OrderedTask[]): OrderedTask[][] {
  const parts: OrderedTask[][] = [];
  let length = Number.POSITIVE_INFINITY;
  for (const task of tasks) {
    length += lengthOf(task);
    if (length > MAX_STATEMENT_LENGTH) {
      parts.push([]);
      length = lengthOf(task);
    }
    parts.at(-1)?.push(task);
  }
  return parts;
}

/** PostgreSQL rejects a string that contains a NUL character. */
function isText(text: string): boolean {
  return !text.includes('\0');
}

/** SQLSTATE prefixes of errors caused by a single row. Any other error would affect every row. */
const VALUE_ERRORS = /^(22|23|54|P0001)/;

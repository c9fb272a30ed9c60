import { RETENTION_SLICE, type RetentionLimits } from '../task-store.ts';
import { LONG_LIMIT_MS, type PostgresDatabase, type Query, tryLock } from './database.ts';

interface LastKept {
  created_at: number;
  arrival: number;
}

const LAST_KEPT = 'SELECT created_at, arrival FROM tasks ORDER BY created_at DESC, arrival DESC OFFSET $1 LIMIT 1';

const deleteFirst = (condition: string) => `DELETE FROM tasks WHERE ctid = ANY (ARRAY(
    SELECT tid FROM (
      SELECT ctid AS tid, bytes, sum(bytes) OVER (ORDER BY created_at, arrival ROWS UNBOUNDED PRECEDING) AS total
      FROM (
        SELECT ctid, created_at, arrival, octet_length(payload)::bigint + coalesce(octet_length(result), 0)
          + coalesce(octet_length(history), 0) AS bytes
        FROM tasks WHERE ${condition} ORDER BY created_at, arrival LIMIT ${RETENTION_SLICE.maxLength}
      ) AS first
    ) AS counted WHERE total - bytes = 0 OR total <= ${RETENTION_SLICE.maxBytes}
  )) RETURNING 1 AS deleted`;

const DELETE_EXCESS = deleteFirst('(created_at, arrival) < ($1::bigint, $2::bigint)');
const DELETE_AGED = deleteFirst('created_at < $1 AND coalesce(processed_at, created_at) < $1');

export class Retention {
  readonly #database: PostgresDatabase;
  /** Found by reading the index of all kept rows, so once for all slices until nothing is left to delete. */
  #lastKept: LastKept | undefined;

  constructor(database: PostgresDatabase) {
    this.#database = database;
  }

  /** Deletes a slice, unless another node is deleting one. Returns whether more may be left. */
  async deleteOldRows({ before, rows }: RetentionLimits): Promise<boolean> {
    const work = async (query: Query) => {
      if (!(await tryLock(query, 'retention'))) return false;
      if (rows !== undefined && (await this.#deleteExcess(query, rows)) > 0) return true;
      return before !== undefined && (await query(DELETE_AGED, [before])).length > 0;
    };
    return this.#database.transaction(work, { timeLimitMs: LONG_LIMIT_MS });
  }

  async #deleteExcess(query: Query, rows: number): Promise<number> {
    this.#lastKept ??= (await query<LastKept>(LAST_KEPT, [rows - 1]))[0];
    if (this.#lastKept === undefined) return 0;
    const { created_at, arrival } = this.#lastKept;
    const { length: deleted } = await query(DELETE_EXCESS, [created_at, arrival]);
    if (deleted === 0) this.#lastKept = undefined;
    return deleted;
  }
}

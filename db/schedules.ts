import type { Located, Message, Read } from './task-rows.ts';

/** A schedule makes tasks at the times of a cron expression. Times are milliseconds since the epoch. */
export interface StoredSchedule {
  name: string;
  /** JSON text of the settings. */
  definition: string;
  /** Whether the schedule was made over HTTP or is exported by the handlers module. */
  source: 'api' | 'module';
  /** Null if the schedule is paused, or has no further time. */
  nextAt: number | null;
  /** Last time for which a task was made, and the id of the task. */
  lastAt: number | null;
  lastTask: string | null;
}

export type DueSchedule = StoredSchedule & { nextAt: number };

export interface NewSchedule extends Omit<StoredSchedule, 'lastAt' | 'lastTask'> {
  /** Text that changes with the times of the schedule. */
  timing: string;
}

/** If name, definition and next time are no longer those of a schedule, nothing happens. */
export interface Firing {
  name: string;
  definition: string;
  /** Next time of the schedule when it was read. */
  dueAt: number;
  nextAt: number | null;
  /** Undefined if the schedule only advances. */
  task: { at: number; message: Message } | undefined;
  /** Whether the schedule only advances if a task that it made is unfinished. */
  isExclusive: boolean;
}

/** `skipped` if the schedule only advanced, `changed` if it was no longer due. */
export type Fired = 'fired' | 'skipped' | 'changed';

/** Statements with parameters from `$1`, and a transaction of their database. */
export interface ScheduleTable {
  read: Read;
  write: (statement: string, values: readonly Value[]) => Promise<readonly unknown[]>;
  /**
   * Runs `advance` and, if the schedule fires, publishes the message, in one transaction.
   *
   * @param onAccepted called once the message can be taken, which may be before it is on disk
   * @throws {QueueFull} if the message does not fit
   */
  fire(
    advance: string,
    values: Value[],
    message: Message | undefined,
    onAccepted: () => void,
  ): Promise<Advanced | undefined>;
}

export type Value = string | number | null;

/** The row that `advance` returns. */
export interface Advanced {
  isFired: boolean | number;
}

/** Bound of the schedules that clients add. Those of the handlers module count, but are always added. */
export const MAX_SCHEDULES = 1000;

const SELECT = `SELECT name, definition, source, next_at AS "nextAt", last_at AS "lastAt", last_task AS "lastTask"
  FROM schedules`;
// Nodes that add schedules at the same moment may exceed the bound by a few.
const PUT = `INSERT INTO schedules (name, definition, source, timing, next_at)
  SELECT $1, $2, $3, $4, CAST($5 AS bigint) WHERE $3 = 'module' OR (SELECT count(*) FROM schedules WHERE name <> $1) < ${MAX_SCHEDULES}
  ON CONFLICT (name) DO UPDATE SET definition = excluded.definition, source = excluded.source, timing = excluded.timing,
    next_at = CASE WHEN schedules.timing = excluded.timing THEN schedules.next_at ELSE excluded.next_at END
    WHERE schedules.source = 'api' OR excluded.source = 'module' RETURNING name`;
// A change of the timing may have been computed before the last time fired, and be written after it, so only later times
// fire.
const FIRES = `CAST($5 AS text) IS NOT NULL AND (last_at IS NULL OR last_at < CAST($4 AS bigint))
  AND NOT (CAST($6 AS integer) = 1 AND EXISTS (SELECT 1 FROM messages WHERE schedule = $1 AND state <> 'failed'))`;
// Locks the row, so that another node waits and then finds another next time.
const ADVANCE = `UPDATE schedules SET next_at = CAST($3 AS bigint),
  last_at = CASE WHEN ${FIRES} THEN CAST($4 AS bigint) ELSE last_at END,
  last_task = CASE WHEN ${FIRES} THEN $5 ELSE last_task END
  WHERE name = $1 AND next_at = $2 AND definition = $7 RETURNING coalesce(last_task = $5, false) AS "isFired"`;

export class Schedules {
  readonly #table: ScheduleTable;

  constructor(table: ScheduleTable) {
    this.#table = table;
  }

  /** Returns the names (`id`), sources and sizes of all schedules, by name. */
  async list(): Promise<readonly (Located & Pick<StoredSchedule, 'source'>)[]> {
    return this.#table.read(
      'SELECT name AS id, octet_length(definition) AS bytes, source FROM schedules ORDER BY name',
    );
  }

  async count(): Promise<number> {
    return Number((await this.#table.read<{ count: number }>('SELECT count(*) AS count FROM schedules'))[0]?.count);
  }

  async find(name: string): Promise<StoredSchedule | undefined> {
    return (await this.#table.read<StoredSchedule>(`${SELECT} WHERE name = $1`, [name]))[0];
  }

  /** Returns schedules with a next time, first due first. */
  async firstDue(limit: number): Promise<readonly DueSchedule[]> {
    return this.#table.read(`${SELECT} WHERE next_at IS NOT NULL ORDER BY next_at LIMIT $1`, [limit]);
  }

  /**
   * Adds or replaces a schedule. If the timing is the same as before, the next time is kept, so that no time is lost.
   *
   * @returns false if nothing was written: there are {@link MAX_SCHEDULES}, or a schedule of the module has the name
   */
  async put({ name, definition, source, timing, nextAt }: NewSchedule): Promise<boolean> {
    return (await this.#table.write(PUT, [name, definition, source, timing, nextAt])).length > 0;
  }

  /** Deletes a schedule of this source. Returns whether there was one. */
  async delete(name: string, source: StoredSchedule['source']): Promise<boolean> {
    const statement = 'DELETE FROM schedules WHERE name = $1 AND source = $2 RETURNING name';
    return (await this.#table.write(statement, [name, source])).length > 0;
  }

  /** Advances a schedule and publishes the task of its present time in one transaction. @throws {QueueFull} */
  async fire({ name, definition, dueAt, nextAt, task, isExclusive }: Firing, onAccepted: () => void): Promise<Fired> {
    const values = [name, dueAt, nextAt, task?.at ?? null, task?.message.id ?? null, Number(isExclusive), definition];
    const advanced = await this.#table.fire(ADVANCE, values, task?.message, onAccepted);
    return advanced === undefined ? 'changed' : advanced.isFired ? 'fired' : 'skipped';
  }
}

import {
  type DeadLetterReasons,
  type DeadLetterSelection,
  type Located,
  mostFrequent,
  type ReasonCount,
  UnknownDeadLetter,
} from '../task-store.ts';
import type { Database } from './database.ts';
import { BYTES } from './messages.ts';
import type { Due } from './turns.ts';

/** A dead letter as eviction, redrive and purge see it. */
export interface SizedDeadLetter extends Due {
  id: string;
  submitter: string | null;
  bodyBytes: number;
  bytes: number;
}

const SIZED = `SELECT arrival, id, action, priority, limit_key, submitter, octet_length(body) + ifnull(octet_length(callback_url), 0) AS bodyBytes, ${BYTES} AS bytes
  FROM messages WHERE failed_at IS NOT NULL`;

/** Queries of messages in the state `failed`. */
export class DeadLetters {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Returns ids and sizes, newest first. @throws {UnknownDeadLetter} if `before` is not the id of a dead letter */
  locate({ before, reason }: { before?: string | undefined; reason?: string | undefined }, limit: number): Located[] {
    const conditions = ['failed_at IS NOT NULL'];
    const values: (string | number)[] = [];
    if (reason !== undefined) {
      conditions.push('reason = ?');
      values.push(reason);
    }
    if (before !== undefined) {
      const position = 'SELECT failed_at AS failedAt, arrival FROM messages WHERE id = ? AND failed_at IS NOT NULL';
      const found = this.#database.get<{ failedAt: number; arrival: number }>(position, before);
      if (found === undefined) throw new UnknownDeadLetter();
      conditions.push('(failed_at, arrival) < (?, ?)');
      values.push(found.failedAt, found.arrival);
    }
    const order = 'ORDER BY failed_at DESC, arrival DESC LIMIT ?';
    const sql = `SELECT id, ${BYTES} AS bytes FROM messages WHERE ${conditions.join(' AND ')} ${order}`;
    return this.#database.all(sql, ...values, limit);
  }

  reasons(): DeadLetterReasons {
    const counts = `SELECT reason, count(*) AS count, min(permanent) AS permanent FROM messages WHERE failed_at IS NOT NULL
      GROUP BY reason`;
    const rows = this.#database.all<Omit<ReasonCount, 'permanent'> & { permanent: number }>(counts);
    return mostFrequent(rows.map((row) => ({ ...row, permanent: row.permanent === 1 })));
  }

  /** Returns the positions of the selected dead letters, oldest first. */
  select(selection: DeadLetterSelection): { arrival: number }[] {
    const [condition, ...values] =
      'ids' in selection
        ? ['AND id IN (SELECT value FROM json_each(?))', JSON.stringify(selection.ids)]
        : 'reason' in selection
          ? ['AND reason = ?', selection.reason]
          : [''];
    const select = `SELECT arrival FROM messages WHERE failed_at IS NOT NULL ${condition} ORDER BY failed_at, arrival`;
    return this.#database.all(select, ...values);
  }

  find(arrival: number): SizedDeadLetter | undefined {
    return this.#database.get(`${SIZED} AND arrival = ?`, arrival);
  }

  oldest(): SizedDeadLetter | undefined {
    return this.#database.get(`${SIZED} ORDER BY failed_at, arrival LIMIT 1`);
  }
}

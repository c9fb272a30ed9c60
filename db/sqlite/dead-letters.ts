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

  find(arrival: number): SizedDeadLetter | undefined {
    return this.#database.get(`${SIZED} AND arrival = ?`, arrival);
  }

  oldest(): SizedDeadLetter | undefined {
    return this.#database.get(`${SIZED} ORDER BY failed_at, arrival LIMIT 1`);
  }
}

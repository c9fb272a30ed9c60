import type { Database } from './database.ts';

/** A queued message as it is written down. Times are milliseconds since the epoch. */
export interface StoredMessage {
  /** Its number in this queue, for good. */
  seq: number;
  /** Its place in the order of waiting. */
  turn: number;
  id: string;
  body: string;
  attempts: number;
  crashes: number;
  /** Why the last attempt failed. */
  reason: string | null;
  /** When it may be tried again; 0 when it waits for nothing. */
  dueAt: number;
  firstAt: number;
}

/** A message that was given up. */
export interface StoredDeadLetter {
  seq: number;
  id: string;
  body: string;
  reason: string;
  attempts: number;
  firstAt: number;
  lastAt: number;
}

/** A submission that is not to be taken twice. */
export interface StoredKey {
  key: string;
  /** Tells its body from another one. */
  fingerprint: string;
  taskId: string;
  acceptedAt: number;
}

/** All that is held, each in its order: of waiting, of giving up, of age. */
export interface StoredQueue {
  messages: StoredMessage[];
  deadLetters: StoredDeadLetter[];
  keys: StoredKey[];
  /** The `seq` of the messages that were being worked on when the process died. */
  cut: number[];
}

/** What a queue keeps on disk: tables `messages`, `dead_letters` and `idempotency_keys` of `queue.db`. */
export class QueuedMessages {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Returns everything that is stored, and changes nothing: a start that fails can be repeated. A message that was
   * running when the process ended counts as a crash, and is due at once.
   */
  read(): StoredQueue {
    const cut = this.#database.statement('SELECT seq FROM messages WHERE running = 1').all();
    const messages = this.#database.statement(
      `SELECT seq, turn, id, body, attempts + running AS attempts, crashes + running AS crashes, reason,
         CASE running WHEN 1 THEN 0 ELSE due_at END AS dueAt, first_at AS firstAt
       FROM messages ORDER BY turn, seq`,
    );
    const deadLetters = this.#database.statement(
      `SELECT seq, id, body, reason, attempts, first_at AS firstAt, last_at AS lastAt
       FROM dead_letters ORDER BY last_at, seq`,
    );
    const keys = this.#database.statement(
      `SELECT key, fingerprint, task_id AS taskId, accepted_at AS acceptedAt FROM idempotency_keys ORDER BY accepted_at, rowid`,
    );
    return {
      messages: messages.all() as unknown as StoredMessage[],
      deadLetters: deadLetters.all() as unknown as StoredDeadLetter[],
      keys: keys.all() as unknown as StoredKey[],
      cut: cut.map(({ seq }) => seq as number),
    };
  }

  /** The numbers of all messages. */
  seqs(): Set<number> {
    const messages = this.#database.statement('SELECT seq FROM messages').all();
    return new Set(messages.map(({ seq }) => seq as number));
  }

  /** Deletes everything. */
  clear(): void {
    for (const table of ['messages', 'dead_letters', 'idempotency_keys']) this.#run(`DELETE FROM ${table}`);
  }

  insert({ seq, turn, id, body, attempts, crashes, reason, dueAt, firstAt }: StoredMessage): void {
    const columns = 'seq, turn, id, body, attempts, crashes, reason, due_at, first_at';
    const values = [seq, turn, id, body, attempts, crashes, reason, dueAt, firstAt];
    this.#run(`INSERT INTO messages (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, ...values);
  }

  /** Notes how far a message has come, and whether an attempt at it is under way. */
  update({ seq, turn, attempts, crashes, reason, dueAt }: StoredMessage, running: boolean): void {
    const set = 'running = ?, turn = ?, attempts = ?, crashes = ?, reason = ?, due_at = ?';
    const values = [running ? 1 : 0, turn, attempts, crashes, reason, dueAt, seq];
    this.#run(`UPDATE messages SET ${set} WHERE seq = ?`, ...values);
  }

  delete(seq: number): void {
    this.#run('DELETE FROM messages WHERE seq = ?', seq);
  }

  insertDeadLetter({ seq, id, body, reason, attempts, firstAt, lastAt }: StoredDeadLetter): void {
    const columns = 'seq, id, body, reason, attempts, first_at, last_at';
    const values = [seq, id, body, reason, attempts, firstAt, lastAt];
    this.#run(`INSERT OR REPLACE INTO dead_letters (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?)`, ...values);
  }

  deleteDeadLetter(seq: number): void {
    this.#run('DELETE FROM dead_letters WHERE seq = ?', seq);
  }

  insertKey({ key, fingerprint, taskId, acceptedAt }: StoredKey): void {
    const columns = 'key, fingerprint, task_id, accepted_at';
    const values = [key, fingerprint, taskId, acceptedAt];
    this.#run(`INSERT OR REPLACE INTO idempotency_keys (${columns}) VALUES (?, ?, ?, ?)`, ...values);
  }

  deleteKey(key: string): void {
    this.#run('DELETE FROM idempotency_keys WHERE key = ?', key);
  }

  #run(sql: string, ...values: (string | number | null)[]): void {
    this.#database.statement(sql).run(...values);
  }
}

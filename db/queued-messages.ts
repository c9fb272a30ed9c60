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
  /** When it may be tried again; 0 when it waits for nothing. */
  due_at: number;
  first_at: number;
}

/** A message that was given up. */
export interface StoredDeadLetter {
  seq: number;
  id: string;
  body: string;
  reason: string;
  attempts: number;
  first_at: number;
  last_at: number;
}

const MESSAGE = 'seq, turn, id, body, attempts, crashes, due_at, first_at';
const DEAD_LETTER = 'seq, id, body, reason, attempts, first_at, last_at';

/** What a durable queue holds: tables `messages` and `dead_letters` of `queue.db`. */
export class QueuedMessages {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Everything that is held, in the order of waiting; what was running when the process ended counts as a crash. */
  recover(): { messages: StoredMessage[]; deadLetters: StoredDeadLetter[] } {
    this.#run('UPDATE messages SET attempts = attempts + 1, crashes = crashes + 1, running = 0 WHERE running = 1');
    const messages = this.#database.statement(`SELECT ${MESSAGE} FROM messages ORDER BY turn`).all();
    const deadLetters = this.#database.statement(`SELECT ${DEAD_LETTER} FROM dead_letters ORDER BY seq`).all();
    return {
      messages: messages as unknown as StoredMessage[],
      deadLetters: deadLetters as unknown as StoredDeadLetter[],
    };
  }

  insert(message: StoredMessage): void {
    const { seq, turn, id, body, attempts, crashes, due_at, first_at } = message;
    const values = [seq, turn, id, body, attempts, crashes, due_at, first_at];
    this.#run(`INSERT INTO messages (${MESSAGE}) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`, ...values);
  }

  /** Notes that an attempt is under way, or no longer. */
  setRunning(seq: number, running: boolean): void {
    this.#run('UPDATE messages SET running = ? WHERE seq = ?', running ? 1 : 0, seq);
  }

  /** Notes an attempt that failed and is to be followed by another. */
  postpone(message: Pick<StoredMessage, 'seq' | 'turn' | 'attempts' | 'crashes' | 'due_at'>): void {
    const { seq, turn, attempts, crashes, due_at } = message;
    const set = 'running = 0, turn = ?, attempts = ?, crashes = ?, due_at = ?';
    this.#run(`UPDATE messages SET ${set} WHERE seq = ?`, turn, attempts, crashes, due_at, seq);
  }

  delete(seq: number): void {
    this.#run('DELETE FROM messages WHERE seq = ?', seq);
  }

  insertDeadLetter({ seq, id, body, reason, attempts, first_at, last_at }: StoredDeadLetter): void {
    const values = [seq, id, body, reason, attempts, first_at, last_at];
    this.#run(`INSERT INTO dead_letters (${DEAD_LETTER}) VALUES (?, ?, ?, ?, ?, ?, ?)`, ...values);
  }

  deleteDeadLetter(seq: number): void {
    this.#run('DELETE FROM dead_letters WHERE seq = ?', seq);
  }

  #run(sql: string, ...values: (string | number)[]): void {
    this.#database.statement(sql).run(...values);
  }
}

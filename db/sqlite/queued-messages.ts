import {
  type AttemptHistory,
  historyText,
  PROCESS_DIED,
  readHistory,
  sharedReason,
  withAttempt,
} from '../attempt-history.ts';
import type { Database } from './database.ts';

/** A queued message and its state. Times are milliseconds since the epoch. */
export interface StoredMessage {
  /** Sequence number, in the order of arrival. */
  sequence: number;
  /** Position in the order of delivery. A retry or snooze gives the message a new position. */
  position: number;
  id: string;
  body: string;
  attempts: number;
  crashes: number;
  /** Whether a process died while the message was in flight. False again once a later attempt has ended. */
  suspect: boolean;
  /** Reason for the last failure or snooze; null if there was none. */
  reason: string | null;
  history: AttemptHistory;
  /** Time of the next delivery in milliseconds since the epoch; 0 if the message is not delayed. */
  dueAt: number;
  acceptedAt: number;
}

export interface DeadLetter
  extends Pick<StoredMessage, 'sequence' | 'id' | 'body' | 'attempts' | 'acceptedAt' | 'history'> {
  reason: string;
  /** Whether the last attempt failed with a permanent error. */
  permanent: boolean;
  failedAt: number;
}

export interface KeyRecord {
  key: string;
  /** Hash of the submission, used to detect a different submission with the same idempotency key. */
  fingerprint: string;
  taskId: string;
  acceptedAt: number;
}

/** Contents of a queue. Messages are in delivery order, dead letters and idempotency keys oldest first. */
export interface QueueSnapshot {
  messages: readonly StoredMessage[];
  deadLetters: readonly DeadLetter[];
  keys: readonly KeyRecord[];
  paused: boolean;
}

/** Stored state of a queue: tables `messages`, `dead_letters`, `idempotency_keys` and `pauses` of `queue.db`. */
export class QueuedMessages {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /**
   * Reads the stored queue at startup. A message that was in flight when the process died becomes a suspect. If an
   * attempt of a suspect was running, the crash counts as a failed attempt.
   */
  read(): QueueSnapshot {
    const messages = this.#database.statement(
      `SELECT seq AS sequence, turn AS position, id, body, attempts + charged AS attempts, crashes + charged AS crashes, suspect OR running AS suspect,
         reason, history, charged,
         iif(running, 0, due_at) AS dueAt, first_at AS acceptedAt
       FROM (SELECT *, suspect AND running AS charged FROM messages) ORDER BY turn, seq`,
    );
    const deadLetters = this.#database.statement(
      `SELECT seq AS sequence, id, body, reason, attempts, history, permanent, first_at AS acceptedAt, last_at AS failedAt
       FROM dead_letters ORDER BY last_at, seq`,
    );
    const keys = this.#database.statement(
      `SELECT key, fingerprint, task_id AS taskId, accepted_at AS acceptedAt FROM idempotency_keys ORDER BY accepted_at, rowid`,
    );
    return {
      messages: messages.all().map((row) => messageOf(row as unknown as MessageRow)),
      deadLetters: deadLetters.all().map((row) => deadLetterOf(row as unknown as DeadLetterRow)),
      keys: keys.all() as unknown as KeyRecord[],
      paused: this.#database.statement('SELECT 1 FROM pauses').get() !== undefined,
    };
  }

  sequences(): Set<number> {
    const messages = this.#database.statement('SELECT seq FROM messages').all();
    return new Set(messages.map(({ seq }) => seq as number));
  }

  clear(): void {
    for (const table of ['messages', 'dead_letters', 'idempotency_keys', 'pauses']) this.#run(`DELETE FROM ${table}`);
  }

  insert(message: StoredMessage): void {
    const { sequence, position, id, body, attempts, crashes, suspect, reason, dueAt, acceptedAt } = message;
    const columns = 'seq, turn, id, body, attempts, crashes, suspect, reason, due_at, first_at, history';
    const state = [attempts, crashes, Number(suspect), reason, dueAt, acceptedAt, historyText(message.history)];
    this.#run(
      `INSERT INTO messages (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
      ...[sequence, position, id, body, ...state],
    );
  }

  /** @param running whether the message becomes a suspect if the process dies */
  update(message: StoredMessage, running: boolean): void {
    const { sequence, position, attempts, crashes, suspect, reason, history, dueAt } = message;
    const set = 'running = ?, turn = ?, attempts = ?, crashes = ?, suspect = ?, reason = ?, history = ?, due_at = ?';
    const values = [Number(running), position, attempts, crashes, Number(suspect), reason, historyText(history), dueAt];
    this.#run(`UPDATE messages SET ${set} WHERE seq = ?`, ...values, sequence);
  }

  delete(sequence: number): void {
    this.#run('DELETE FROM messages WHERE seq = ?', sequence);
  }

  insertDeadLetter({
    sequence,
    id,
    body,
    reason,
    attempts,
    history,
    permanent,
    acceptedAt,
    failedAt,
  }: DeadLetter): void {
    const columns = 'seq, id, body, reason, attempts, history, permanent, first_at, last_at';
    const values = [
      sequence,
      id,
      body,
      reason,
      attempts,
      historyText(history),
      Number(permanent),
      acceptedAt,
      failedAt,
    ];
    this.#run(`INSERT OR REPLACE INTO dead_letters (${columns}) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)`, ...values);
  }

  deleteDeadLetter(sequence: number): void {
    this.#run('DELETE FROM dead_letters WHERE seq = ?', sequence);
  }

  insertKey({ key, fingerprint, taskId, acceptedAt }: KeyRecord): void {
    const columns = 'key, fingerprint, task_id, accepted_at';
    const values = [key, fingerprint, taskId, acceptedAt];
    this.#run(`INSERT OR REPLACE INTO idempotency_keys (${columns}) VALUES (?, ?, ?, ?)`, ...values);
  }

  deleteKey(key: string): void {
    this.#run('DELETE FROM idempotency_keys WHERE key = ?', key);
  }

  storePause(isPaused: boolean): void {
    this.#run('DELETE FROM pauses');
    if (isPaused) this.#run('INSERT INTO pauses (since) VALUES (?)', Date.now());
  }

  #run(sql: string, ...values: (string | number | null)[]): void {
    this.#database.statement(sql).run(...values);
  }
}

/** `charged` is 1 if the crash that ended the previous process counts as a failed attempt of the message. */
interface MessageRow extends Omit<StoredMessage, 'suspect' | 'history'> {
  suspect: number;
  history: string | null;
  charged: number;
}

function messageOf({ charged, suspect, history: text, ...row }: MessageRow): StoredMessage {
  const stored = readHistory(text);
  const history = charged === 1 ? withAttempt(stored, Date.now(), PROCESS_DIED) : stored;
  const reason = charged === 1 ? PROCESS_DIED : row.reason;
  return { ...row, suspect: suspect === 1, history, reason: reason && sharedReason(history, reason) };
}

interface DeadLetterRow extends Omit<DeadLetter, 'history' | 'permanent'> {
  history: string | null;
  permanent: number;
}

function deadLetterOf({ history: text, permanent, ...row }: DeadLetterRow): DeadLetter {
  const history = readHistory(text);
  return { ...row, reason: sharedReason(history, row.reason), history, permanent: permanent === 1 };
}

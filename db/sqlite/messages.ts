import { readHistory } from '../attempt-history.ts';
import { deathOf, type LostMessage, type MessageChange } from '../message-change.ts';
import {
  type Delivery,
  type ListedState,
  LONGEST_WAIT_MS,
  type Located,
  type Message,
  type MessageState,
  NORMAL_PRIORITY,
  PRIORITIES,
  STAGED_SLICE,
  type StoredMessage,
  SUSPECT_DEATHS,
  type TaskSubject,
} from '../task-store.ts';
import type { Database } from './database.ts';

/** A delivery with the size that the queue's counters need. */
export interface SizedDelivery extends Delivery {
  /** Size of body, reason and history. */
  bytes: number;
}

/** States of messages that are due later. */
export const LATER_STATES = ['scheduled', 'retrying'] as const;
export type LaterState = (typeof LATER_STATES)[number];

/** Size of a message, as the queue's limit counts it. `octet_length` does not read the text. */
export const BYTES = 'octet_length(body) + ifnull(octet_length(reason), 0) + ifnull(octet_length(history), 0)';

// A settlement names the delivery, so that a late one changes nothing.
const FENCE = "arrival = ? AND delivery = ? AND state = 'running'";

const DUE = `arrival, id, action, body, delivery + 1 AS delivery, run_at AS dueAt, attempts + 1 AS attempt, crashes,
  deaths, history, ${BYTES} AS bytes`;

// The statements of every task are constants, because building their text would cost as much as running them.
const INSERT = `INSERT INTO messages (arrival, id, action, state, priority, run_at, accepted_at, body)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?)`;
// Reads one message, because node:sqlite's `get` takes a tenth of the time of `all`.
const NEXT = `SELECT ${DUE} FROM messages WHERE state = 'waiting' AND deaths < ${SUSPECT_DEATHS}
  ORDER BY priority, run_at, arrival LIMIT 1`;
/** Returns the position and the time of the message that has waited longest. Reads one message of each priority. */
const longest = (condition: string) => {
  const heads = PRIORITIES.map(
    (priority) => `SELECT * FROM (SELECT arrival, run_at FROM messages
      WHERE state = 'waiting' AND priority = ${priority} ${condition} ORDER BY run_at, arrival LIMIT 1)`,
  );
  return `SELECT arrival, run_at FROM (${heads.join(' UNION ALL ')}) ORDER BY run_at, arrival LIMIT 1`;
};
const NEXT_LONGEST = `SELECT ${DUE} FROM messages
  WHERE arrival = (SELECT arrival FROM (${longest(`AND deaths < ${SUSPECT_DEATHS}`)}))`;
const OLDEST = longest('');
const MARK_TAKEN = "UPDATE messages SET state = 'running', delivery = ? WHERE arrival = ?";
const END = `DELETE FROM messages WHERE ${FENCE}`;

const STORED = `id, action, octet_length(body) AS bodyBytes, state, priority, run_at AS runAt, accepted_at AS acceptedAt, attempts,
  reason, history, permanent, failed_at AS failedAt`;

/** Statements on the messages. Writes must run in a transaction. */
export class Messages {
  readonly #database: Database;

  constructor(database: Database) {
    this.#database = database;
  }

  /** Returns the state of the message. */
  insert(
    arrival: number,
    { id, action, body, priority = NORMAL_PRIORITY, runAt }: Message,
    now: number,
  ): 'waiting' | 'scheduled' {
    const state = runAt === undefined ? 'waiting' : 'scheduled';
    this.#database.run(INSERT, arrival, id, action ?? null, state, priority, runAt ?? now, now, body);
    return state;
  }

  /** Makes the messages of a state wait that are due, up to a slice. Returns their number. */
  stage(state: LaterState, now: number): number {
    const due = `SELECT arrival FROM messages WHERE state = '${state}' AND run_at <= ? ORDER BY run_at LIMIT ${STAGED_SLICE}`;
    return this.#database.run(`UPDATE messages SET state = 'waiting' WHERE arrival IN (${due})`, now);
  }

  /** Returns when the first scheduled or retrying message is due, or infinity if there is none. */
  nextDueAt(): number {
    const times = LATER_STATES.map((state) => {
      const first = `SELECT min(run_at) AS runAt FROM messages WHERE state = '${state}'`;
      return this.#database.get<{ runAt: number | null }>(first)?.runAt ?? Number.POSITIVE_INFINITY;
    });
    return Math.min(...times);
  }

  /** Makes a message due. */
  runNow(arrival: number, now: number): void {
    this.#database.run("UPDATE messages SET state = 'waiting', run_at = ? WHERE arrival = ?", now, arrival);
  }

  /**
   * Returns the next message that is no suspect, with the number of its next delivery.
   *
   * @param isLongest whether it is the one that has waited longest, whatever its priority
   */
  next(isLongest: boolean): SizedDelivery | undefined {
    return deliveryOf(this.#database.get<DueRow>(isLongest ? NEXT_LONGEST : NEXT));
  }

  /** Returns a message that is waiting, with the number of its next delivery. */
  waiting(arrival: number): SizedDelivery | undefined {
    const waiting = `SELECT ${DUE} FROM messages WHERE arrival = ? AND state = 'waiting'`;
    return deliveryOf(this.#database.get<DueRow>(waiting, arrival));
  }

  /** Returns the positions of all suspects, next to run first. Reads the table once, at the start. */
  suspects(): number[] {
    const suspects = `SELECT arrival FROM messages WHERE state = 'waiting' AND deaths >= ${SUSPECT_DEATHS}
      ORDER BY run_at, arrival`;
    return this.#database.all<{ arrival: number }>(suspects).map(({ arrival }) => arrival);
  }

  markTaken({ arrival, delivery }: Delivery): void {
    this.#database.run(MARK_TAKEN, delivery, arrival);
  }

  /** Deletes a running message. Returns false if the delivery is no longer current. */
  end({ arrival, delivery }: Delivery): boolean {
    return this.#database.run(END, arrival, delivery) > 0;
  }

  /** Deletes a running message whose cancellation was requested. */
  endCancelled({ arrival, delivery }: MessageChange['delivery']): boolean {
    return this.#database.run(`${END} AND cancel_requested = 1`, arrival, delivery) > 0;
  }

  /** Changes a running message. Returns its new size, or undefined if it is not current, or would wait but was cancelled. */
  change({ delivery, runAt, isPermanent, ...others }: MessageChange, now: number): number | undefined {
    const isFailed = others.state === 'failed';
    const columns = {
      ...others,
      ...(runAt !== undefined && { run_at: runAt }),
      ...(isFailed && { permanent: Number(isPermanent === true), failed_at: now, cancel_requested: 0 }),
    };
    const names = Object.keys(columns).map((name) => `${name} = ?`);
    const update = `UPDATE messages SET ${names} WHERE ${FENCE} ${isFailed ? '' : 'AND cancel_requested = 0'}`;
    const values = [...Object.values(columns), delivery.arrival, delivery.delivery];
    return this.#database.get<{ bytes: number }>(`${update} RETURNING ${BYTES} AS bytes`, ...values)?.bytes;
  }

  /** Puts a dead letter at the end of the queue, with nothing charged. */
  redrive(arrival: number, now: number): void {
    const set = `state = 'waiting', run_at = ?, attempts = 0, crashes = 0, deaths = 0, permanent = 0, failed_at = NULL,
      reason = NULL, history = NULL`;
    this.#database.run(`UPDATE messages SET ${set} WHERE arrival = ?`, now, arrival);
  }

  /** Returns the fields of a message that decide its cancellation. */
  state(id: string): { arrival: number; action: string | null; state: MessageState; bytes: number } | undefined {
    return this.#database.get(`SELECT arrival, action, state, ${BYTES} AS bytes FROM messages WHERE id = ?`, id);
  }

  delete(arrival: number): void {
    this.#database.run('DELETE FROM messages WHERE arrival = ?', arrival);
  }

  requestCancellation(arrival: number): void {
    this.#database.run('UPDATE messages SET cancel_requested = 1 WHERE arrival = ?', arrival);
  }

  isCancelRequested(id: string): boolean {
    return this.#database.get('SELECT 1 FROM messages WHERE id = ? AND cancel_requested = 1', id) !== undefined;
  }

  /** Returns a message, with its body cut to `bodyLength` characters. */
  find(id: string, bodyLength?: number): StoredMessage | undefined {
    const body = bodyLength === undefined ? 'body' : `substr(body, 1, ${bodyLength}) AS body`;
    const row = this.#database.get<StoredRow>(`SELECT ${STORED}, ${body} FROM messages WHERE id = ?`, id);
    if (row === undefined) return undefined;
    const { action, history, permanent, failedAt, ...others } = row;
    return {
      ...others,
      action: action ?? undefined,
      history: readHistory(history),
      isPermanent: permanent === 1,
      failedAt: failedAt ?? undefined,
      startedAt: undefined,
      progress: undefined,
    };
  }

  locate(state: Exclude<ListedState, 'running'>, limit: number): Located[] {
    const order = state === 'waiting' ? 'priority, run_at' : 'run_at';
    const located = `SELECT id, ${BYTES} AS bytes FROM messages WHERE state = '${state}' ORDER BY ${order}, arrival LIMIT ?`;
    return this.#database.all(located, limit);
  }

  locateRunning(arrivals: readonly number[]): Located[] {
    const one = `SELECT id, ${BYTES} AS bytes FROM messages WHERE arrival = ? AND state = 'running'`;
    return arrivals.flatMap((arrival) => this.#database.get<Located>(one, arrival) ?? []);
  }

  /** Returns when the longest waiting message became due. */
  oldest(): number | undefined {
    return this.#database.get<{ run_at: number }>(OLDEST)?.run_at;
  }

  /** Counts the messages of each state, and their bytes. Reads the table once, at the start. */
  totals(): { state: string; count: number; bytes: number }[] {
    return this.#database.all(`SELECT state, count(*) AS count, sum(${BYTES}) AS bytes FROM messages GROUP BY state`);
  }

  lastArrival(): number {
    return this.#database.get<{ last: number }>('SELECT ifnull(max(arrival), 0) AS last FROM messages')?.last ?? 0;
  }

  /**
   * Makes all running messages wait, because their process has died, or dead-letters them. Corrects the times of messages
   * if the clock was set back.
   *
   * @returns the dead-lettered tasks
   */
  recover(now: number): TaskSubject[] {
    const lost =
      this.#database.all<LostMessage>(`SELECT arrival, delivery, id, action, attempts, crashes, deaths, history,
      cancel_requested AS isCancelRequested FROM messages WHERE state = 'running'`);
    const failed: TaskSubject[] = [];
    for (const message of lost) {
      const change = deathOf(message, now);
      if (this.change(change, now) === undefined) this.endCancelled(message);
      else if (change.state === 'failed') failed.push({ id: message.id, action: message.action ?? undefined });
    }
    // A waiting message of the future, or a retry too far in it, means that the clock was set back.
    for (const [state, latest] of [['waiting', now] as const, ['retrying', now + LONGEST_WAIT_MS] as const]) {
      this.#database.run(`UPDATE messages SET run_at = ? WHERE state = '${state}' AND run_at > ?`, latest, latest);
    }
    return failed;
  }
}

interface DueRow extends Omit<SizedDelivery, 'action' | 'history' | 'isSuspect'> {
  action: string | null;
  deaths: number;
  history: string | null;
}

interface StoredRow extends Omit<StoredMessage, 'action' | 'history' | 'isPermanent' | 'failedAt'> {
  action: string | null;
  history: string | null;
  permanent: number;
  failedAt: number | null;
}

function deliveryOf(row: DueRow | undefined): SizedDelivery | undefined {
  if (row === undefined) return undefined;
  const { arrival, id, action, body, delivery, dueAt, attempt, crashes, deaths, history, bytes } = row;
  return {
    arrival,
    id,
    action: action ?? undefined,
    body,
    delivery,
    dueAt,
    attempt,
    crashes,
    bytes,
    isSuspect: deaths >= SUSPECT_DEATHS,
    history: readHistory(history),
  };
}

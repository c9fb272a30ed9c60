import { readHistory } from '../attempt-history.ts';
import { deathOf, type LostMessage, type MessageChange } from '../message-change.ts';
import type * as db from '../task-store.ts';
import { LONGEST_WAIT_MS, NORMAL_PRIORITY, PRIORITIES, STAGED_SLICE, SUSPECT_DEATHS } from '../task-store.ts';
import type { Counters } from './counters.ts';
import type { Database } from './database.ts';
import { CORRECT_STARTS, type Held, type Limited, Limits, PLACES, type Place } from './limits.ts';
import { type Due, Rounds } from './rounds.ts';

export interface SizedDelivery extends db.Delivery {
  /** Size of body, reason and history. */
  bytes: number;
  priority: number;
  round: number;
}

export interface SizedDeadLetter extends Due {
  id: string;
  submitter: string | null;
  bodyBytes: number;
  bytes: number;
}

const LATER_STATES = ['scheduled', 'retrying'] as const;

/** Size of a message, as the queue's limit counts it. `octet_length` does not read the text. */
export const BYTES = `octet_length(body) + ifnull(octet_length(reason), 0) + ifnull(octet_length(history), 0)
  + ifnull(octet_length(callback_url), 0)`;

// A settlement names the delivery, so that a late one changes nothing.
const FENCE = "arrival = ? AND delivery = ? AND state = 'running'";

const DUE = `arrival, id, action, priority, limit_key, round, body, delivery + 1, run_at, attempts + 1, crashes, deaths, history,
  submitter, traceparent, callback_url, callback_of, ${BYTES}`;

// The statements of every task are constants, because building their text would cost as much as running them.
const INSERT = `INSERT INTO messages
  (arrival, id, action, state, priority, limit_key, round, place, run_at, accepted_at, schedule, traceparent, callback_url,
    callback_of, body)
  VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`;
// Apart, because most messages have none.
const SET_SUBMITTER = 'UPDATE messages SET submitter = ? WHERE arrival = ?';
// Reads one message, because node:sqlite's `get` takes a tenth of the time of `all`.
const NEXT = `SELECT ${DUE} FROM messages WHERE state = 'waiting' AND deaths < ${SUSPECT_DEATHS}
  ORDER BY priority, round, run_at, arrival LIMIT 1`;
const NEXT_CALLBACK = `SELECT ${DUE} FROM messages WHERE state = 'waiting' AND callback_of IS NOT NULL
  ORDER BY priority, round, run_at, arrival LIMIT 1`;
const NEXT_LONGEST = `SELECT ${DUE} FROM messages WHERE state = 'waiting' AND deaths < ${SUSPECT_DEATHS}
  ORDER BY run_at, arrival LIMIT 1`;
const OLDEST = "SELECT min(run_at) AS runAt FROM messages WHERE state = 'waiting'";
const START = `UPDATE messages SET started_at = ? WHERE ${FENCE} AND started_at IS NULL`;
const IS_SUSPECT = `state IN ('waiting', 'limited', 'running') AND deaths >= ${SUSPECT_DEATHS}`;
const MARK_TAKEN = "UPDATE messages SET state = 'running', delivery = ? WHERE arrival = ?";
const WAIT = 'UPDATE messages SET state = ?, place = ?, round = ? WHERE arrival = ?';
const WAIT_TOGETHER = `UPDATE messages SET state = 'waiting', round = ?1 + position.key
  FROM json_each(?2) AS position WHERE arrival = position.value`;
const PLACE = 'UPDATE messages SET state = ?, place = ? WHERE arrival = ?';
const HELD = 'SELECT arrival, action, priority, limit_key, place, started_at FROM messages WHERE arrival = ?';
const LIMITED = `SELECT arrival, action, priority, limit_key, run_at FROM messages WHERE place < 2`;
const IN_ORDER = 'ORDER BY priority, round, run_at, arrival';
const NEXT_OF_ACTION = `${LIMITED} AND place = 1 AND action = ? ${IN_ORDER} LIMIT 1`;
const LONGEST_OF_ACTION = `${LIMITED} AND place = 1 AND action = ? ORDER BY run_at, arrival LIMIT 1`;
const OF_KEY = `${LIMITED} AND place = 0 AND action = ? AND limit_key = ?`;
const NEXT_OF_KEY = `${OF_KEY} ${IN_ORDER} LIMIT 1`;
const NEXT_OF_PRIORITY = `${OF_KEY} AND priority = ? ${IN_ORDER} LIMIT 1`;
const LIMITED_KEYS = 'SELECT DISTINCT limit_key FROM messages WHERE place < 2 AND place = 0 AND action = ?';
const COUNT_LIMITED = 'SELECT count(*) AS count FROM messages INDEXED BY limited_messages WHERE place < 2';
// Messages that keep waiting keep their rounds. The indexes are named so that scheduled messages are not read.
const REPLACE_ALL = `UPDATE messages SET state = placed.state, place = placed.place, round = placed.round
  FROM (
    SELECT arrival, place, CASE WHEN place < 2 THEN 'limited' ELSE 'waiting' END AS state, CASE place
      WHEN 0 THEN 0 WHEN 1 THEN position ELSE CASE former WHEN 'waiting' THEN round ELSE present + position END END AS round
    FROM (
      SELECT arrival, state AS former, round, CASE WHEN ?1 AND limit_key IS NOT NULL THEN 0 ELSE ?2 END AS place,
        row_number() OVER (PARTITION BY priority, limit_key ORDER BY state = 'limited', place DESC, round, run_at, arrival) - 1
          AS position,
        (SELECT ifnull(min(round), 0) FROM messages AS other WHERE other.state = 'waiting' AND other.priority = own.priority)
          AS present
      FROM (
        SELECT * FROM messages INDEXED BY longest_waiting WHERE state = 'waiting' AND action = ?3
        UNION ALL SELECT * FROM messages WHERE place < 2 AND place IN (0, 1) AND action = ?3
      ) AS own
    )
  ) AS placed WHERE messages.arrival = placed.arrival`;
const END = `DELETE FROM messages WHERE ${FENCE}`;
const DEAD_LETTER = `SELECT arrival, id, action, priority, limit_key, submitter, octet_length(body) + ifnull(octet_length(callback_url), 0) AS bodyBytes,
  ${BYTES} AS bytes FROM messages WHERE failed_at IS NOT NULL`;

/** Statements on the messages. Writes must run in a transaction. */
export class Messages {
  readonly rounds: Rounds;
  readonly limits: Limits;
  readonly #database: Database;
  readonly #counters: Counters;

  /** @param counters changed for each message that begins to wait, and for scheduled ones that are inserted or staged */
  constructor(database: Database, counters: Counters) {
    this.#database = database;
    this.#counters = counters;
    this.rounds = new Rounds(database);
    this.limits = new Limits(database);
  }

  insert(arrival: number, message: NewMessage, now: number): void {
    const { id, action = null, body, priority = NORMAL_PRIORITY, runAt, limitKey: limit_key = null } = message;
    const { schedule = null, traceparent = null, callbackUrl = null, callbackOf = null } = message;
    const due = { arrival, action, priority, limit_key };
    const isScheduled = runAt !== undefined;
    const place = isScheduled ? undefined : this.limits.enter(due);
    const { state, round } = isScheduled ? { state: 'scheduled', round: 0 } : this.#line(due, place);
    const order = [priority, limit_key, round, place ?? null, runAt ?? now, now] as const;
    const origin = [schedule, traceparent, callbackUrl, callbackOf] as const;
    this.#database.runUncounted(INSERT, arrival, id, action, state, ...order, ...origin, body);
    if (message.submitter !== undefined) this.#database.runUncounted(SET_SUBMITTER, message.submitter, arrival);
    if (isScheduled) this.#counters.scheduled += 1;
  }

  /** Makes due messages wait and gives back starts whose time has passed, up to a slice of each. */
  stage(now: number): void {
    for (const state of LATER_STATES) {
      if (this.#counters[state] === 0) continue;
      const due = `SELECT arrival, action, priority, limit_key FROM messages WHERE state = '${state}' AND run_at <= ?
        ORDER BY run_at, arrival LIMIT ${STAGED_SLICE}`;
      const staged = this.#database.all<Due>(due, now);
      const isPlain = ({ action, limit_key }: Due) => limit_key === null && this.limits.of(action) === undefined;
      const plain = Map.groupBy(staged, (message) => isPlain(message) && message.priority);
      for (const [priority, messages] of plain) {
        if (priority !== false) this.#waitTogether(priority, messages);
        else for (const message of messages) this.#wait(message);
      }
      this.#counters[state] -= staged.length;
    }
    for (const pool of this.limits.endStarts(now)) this.#promote({ ...pool, limit_key: pool.limit_key || null });
  }

  /** Returns when a message is due or the time of a start has passed, or infinity if there is neither. */
  nextDueAt(): number {
    const times = LATER_STATES.map((state) => {
      const first = `SELECT min(run_at) AS runAt FROM messages WHERE state = '${state}'`;
      return this.#database.get<{ runAt: number | null }>(first)?.runAt ?? Number.POSITIVE_INFINITY;
    });
    return Math.min(...times, this.limits.nextStartEnd());
  }

  runNow(message: Due, now: number): void {
    this.#wait(message);
    this.#database.run('UPDATE messages SET run_at = ? WHERE arrival = ?', now, message.arrival);
  }

  /** Makes a message wait or be limited, in the next round of its key. */
  #wait(message: Due, place = this.limits.enter(message)): void {
    const { state, round } = this.#line(message, place);
    this.#database.runUncounted(WAIT, state, place ?? null, round, message.arrival);
  }

  /** Makes messages of a priority wait that have neither a limit key nor limits, in less time than one by one. */
  #waitTogether(priority: number, messages: readonly Due[]): void {
    const round = this.rounds.next(priority, undefined, messages.length);
    this.#database.runUncounted(WAIT_TOGETHER, round, JSON.stringify(messages.map(({ arrival }) => arrival)));
    this.#counters.waiting += messages.length;
  }

  /** Counts a message that waits or is limited. Returns which, and its round there. */
  #line(message: Due, place: Place | undefined): { state: 'waiting' | 'limited'; round: number } {
    if (place === undefined || place === PLACES.all) {
      this.#counters.waiting += 1;
      return { state: 'waiting', round: this.rounds.next(message.priority, message.limit_key ?? undefined) };
    }
    this.#counters.limited += 1;
    return { state: 'limited', round: place === PLACES.none ? 0 : this.rounds.nextLimited(message) };
  }

  /** Gives a place that an action, and one of its keys, have released to the next limited message of each. */
  #promote({ action, limit_key }: Pick<Limited, 'action' | 'limit_key'>): void {
    if (action === null) return;
    if (this.limits.limitsAction(action)) this.#promoteOfAction(action);
    const isKeyUsed =
      limit_key !== null &&
      this.limits.limitsKeys(action) &&
      this.#promoteOfKey(action, limit_key, (first) => this.limits.enter(first, true));
    if (!isKeyUsed) this.limits.deleteUnused({ action, limit_key });
  }

  /** Lets the next message wait that is limited by its action. Returns false if there is none, or no room. */
  #promoteOfAction(action: string): boolean {
    const next = this.limits.isLongestNext(action) ? LONGEST_OF_ACTION : NEXT_OF_ACTION;
    const first = this.#database.get<Due>(next, action);
    if (first === undefined || !this.limits.enterAction(first)) return false;
    this.#replace(first, PLACES.all);
    return true;
  }

  /** Gives places to the next message that is limited by its key. Returns false if there is none, or no room. */
  #promoteOfKey(action: string, key: string, enter: (first: Due) => Place | undefined): boolean {
    const first = this.limits.isLongestNext(action, key)
      ? PRIORITIES.flatMap(
          (priority) => this.#database.get<DueLater>(NEXT_OF_PRIORITY, action, key, priority) ?? [],
        ).sort((one, other) => one.run_at - other.run_at)[0]
      : this.#database.get<DueLater>(NEXT_OF_KEY, action, key);
    const place = first === undefined ? PLACES.none : enter(first);
    if (first === undefined || place === PLACES.none) return false;
    this.#replace(first, place);
    return true;
  }

  #replace(message: Due, place: Place | undefined): void {
    this.#counters.limited -= 1;
    this.#wait(message, place);
  }

  /** Records the start of a running message whose action has a limit of the starts. */
  start({ arrival, delivery, action, limitKey }: db.Delivery, startedAt: number): void {
    const isFirst = this.#database.run(START, startedAt, arrival, delivery) > 0;
    if (isFirst) this.limits.started({ action: action ?? null, limit_key: limitKey ?? null }, startedAt);
  }

  /**
   * Gives the messages of an action their places again, because its limits or their counts have changed.
   *
   * @param running positions of the running messages of all actions
   * @param former limits for which starts are recorded
   */
  place(action: string, running: Iterable<number> = [], former?: db.ActionLimits): void {
    const limits = this.limits.of(action);
    this.limits.clear(action);
    for (const arrival of running) {
      const held = this.#database.get<HeldMessage>(HELD, arrival);
      if (held?.action !== action) continue;
      this.limits.force(held, held.started_at, former);
      this.#database.runUncounted(PLACE, 'running', limits === undefined ? null : PLACES.all, arrival);
    }
    const countLimited = () => this.#database.get<{ count: number }>(COUNT_LIMITED)?.count ?? 0;
    const before = countLimited();
    const place = limits === undefined ? null : this.limits.limitsAction(action) ? PLACES.key : PLACES.all;
    this.#database.run(REPLACE_ALL, Number(this.limits.limitsKeys(action)), place, action);
    const added = countLimited() - before;
    this.#counters.limited += added;
    this.#counters.waiting -= added;
    this.rounds.load();
    for (const { limit_key } of this.#database.all<{ limit_key: string }>(LIMITED_KEYS, action)) {
      while (this.#promoteOfKey(action, limit_key, (first) => this.limits.enterKey(first)));
    }
    while (this.#promoteOfAction(action));
  }

  /** Returns the places of a running message, if its action has limits. */
  #held({ arrival, action }: Omit<MessageChange['delivery'], 'delivery'>): HeldMessage | undefined {
    return this.limits.of(action) && this.#database.get<HeldMessage>(HELD, arrival);
  }

  /**
   * Returns the next message that is no suspect, with the number of its next delivery.
   *
   * @param isLongest whether it is the one that has waited longest, whatever its priority
   */
  next(isLongest: boolean): SizedDelivery | undefined {
    return this.#read(isLongest ? NEXT_LONGEST : NEXT);
  }

  /** Returns the next callback, with the number of its next delivery. */
  nextCallback(): SizedDelivery | undefined {
    return this.#read(NEXT_CALLBACK);
  }

  /** Returns a message that is waiting, with the number of its next delivery. */
  waiting(arrival: number): SizedDelivery | undefined {
    return this.#read(`SELECT ${DUE} FROM messages WHERE arrival = ? AND state = 'waiting'`, arrival);
  }

  #read(statement: string, ...values: number[]): SizedDelivery | undefined {
    const row = this.#database.values<DueRow>(statement, ...values);
    return row && deliveryOf(this.limits, ...row);
  }

  /** Returns the positions of all suspects, next to run first. Reads the table once, at the start. */
  suspects(): number[] {
    const suspects = `SELECT arrival FROM messages WHERE ${IS_SUSPECT} ORDER BY run_at, arrival`;
    return this.#database.all<{ arrival: number }>(suspects).map(({ arrival }) => arrival);
  }

  isSuspect(arrival: number): boolean {
    return this.#database.get(`SELECT 1 FROM messages WHERE arrival = ? AND ${IS_SUSPECT}`, arrival) !== undefined;
  }

  markTaken({ arrival, delivery }: db.Delivery): void {
    this.#database.runUncounted(MARK_TAKEN, delivery, arrival);
  }

  /** Deletes a running message. Returns false if the delivery is no longer current. */
  end(ended: db.Delivery, now: number): boolean {
    return this.#end(END, ended, now);
  }

  #end(statement: string, ended: MessageChange['delivery'], start: number | 'none'): boolean {
    const held = this.#held(ended);
    const isEnded = this.#database.run(statement, ended.arrival, ended.delivery) > 0;
    if (isEnded) this.#leave(held, start);
    return isEnded;
  }

  /** Releases the places of a message, if it has some, for the next ones. */
  #leave(held: HeldMessage | undefined, start: number | 'none'): void {
    if (held === undefined) return;
    this.limits.leave(held, start);
    this.#promote(held);
  }

  /**
   * Changes a running message. If it would wait and its cancellation was requested, deletes it instead.
   *
   * @returns its new size, or why it was not changed
   */
  change(change: MessageChange, now: number): number | 'cancelled' | 'late' {
    const held = this.#held(change.delivery);
    const bytes = this.#write(change, now);
    // The message is released, and its handler has not started.
    const isUnstarted = change.state === 'waiting' && change.deaths === undefined;
    const start = isUnstarted ? 'none' : now;
    if (bytes === undefined) {
      const isCancelled = this.#end(`${END} AND cancel_requested = 1`, change.delivery, start);
      return isCancelled ? 'cancelled' : 'late';
    }
    if (held === undefined) {
      if (change.state === 'waiting') this.#counters.waiting += 1;
      return bytes;
    }
    this.limits.leave(held, start);
    if (change.state === 'waiting') this.#waitAgain(held);
    this.#promote(held);
    return bytes;
  }

  /** Makes a message wait or be limited before others, because it was taken before. */
  #waitAgain(held: HeldMessage): void {
    const place = this.limits.enter(held);
    const isLimited = place === PLACES.none || place === PLACES.key;
    this.#counters[isLimited ? 'limited' : 'waiting'] += 1;
    if (!isLimited) this.#database.runUncounted(PLACE, 'waiting', place ?? null, held.arrival);
    else {
      const round = place === PLACES.none ? 0 : this.rounds.nextLimited(held, true);
      this.#database.runUncounted(WAIT, 'limited', place, round, held.arrival);
    }
  }

  #write({ delivery, runAt, isPermanent, ...others }: MessageChange, now: number): number | undefined {
    const isFailed = others.state === 'failed';
    const columns = {
      ...others,
      started_at: null,
      place: null,
      ...(runAt !== undefined && { run_at: runAt }),
      ...(isFailed && { permanent: Number(isPermanent === true), failed_at: now, cancel_requested: 0 }),
    };
    const names = Object.keys(columns).map((name) => `${name} = ?`);
    const update = `UPDATE messages SET ${names} WHERE ${FENCE} ${isFailed ? '' : 'AND cancel_requested = 0'}`;
    const values = [...Object.values(columns), delivery.arrival, delivery.delivery];
    return this.#database.get<{ bytes: number }>(`${update} RETURNING ${BYTES} AS bytes`, ...values)?.bytes;
  }

  deadLetter(arrival: number): SizedDeadLetter | undefined {
    return this.#database.get(`${DEAD_LETTER} AND arrival = ?`, arrival);
  }

  oldestDeadLetter(): SizedDeadLetter | undefined {
    return this.#database.get(`${DEAD_LETTER} ORDER BY failed_at, arrival LIMIT 1`);
  }

  /** Puts a dead letter at the end of the queue, or schedules it for `runAt`, with nothing charged. */
  redrive(message: Due, now: number, runAt?: number): void {
    if (runAt === undefined) this.runNow(message, now);
    else {
      this.#database.run(
        "UPDATE messages SET state = 'scheduled', run_at = ? WHERE arrival = ?",
        runAt,
        message.arrival,
      );
      this.#counters.scheduled += 1;
    }
    const set = 'attempts = 0, crashes = 0, deaths = 0, permanent = 0, failed_at = NULL, reason = NULL, history = NULL';
    this.#database.run(`UPDATE messages SET ${set} WHERE arrival = ?`, message.arrival);
  }

  /** Returns the fields of a message that decide what happens to it. */
  state(id: string): MessageFacts | undefined {
    const facts = `arrival, id, action, state, priority, limit_key, submitter, traceparent, callback_url AS callbackUrl,
      ${BYTES} AS bytes`;
    return this.#database.get(`SELECT ${facts} FROM messages WHERE id = ?`, id);
  }

  /** Deletes a message that does not run. */
  delete(message: Pick<Due, 'arrival' | 'action'>): void {
    const held = this.#held(message);
    this.#database.run('DELETE FROM messages WHERE arrival = ?', message.arrival);
    this.#leave(held, 'none');
  }

  /** Deletes the running messages whose cancellation was requested, at the stop. */
  deleteCancelled(): EndedMessage[] {
    const statement = `DELETE FROM messages WHERE state = 'running' AND cancel_requested = 1
      RETURNING id, action, traceparent, callback_url AS callbackUrl`;
    return this.#database.all(statement);
  }

  requestCancellation(arrival: number): void {
    this.#database.run('UPDATE messages SET cancel_requested = 1 WHERE arrival = ?', arrival);
  }

  isCancelRequested(id: string): boolean {
    return this.#database.get('SELECT 1 FROM messages WHERE id = ? AND cancel_requested = 1', id) !== undefined;
  }

  /** Counts the running messages of an action, or of one of its limit keys, among those with these positions. */
  countRunning(arrivals: readonly number[], action: string, limitKey: string | undefined): number {
    const count = `SELECT count(*) AS count FROM messages WHERE arrival IN (SELECT value FROM json_each(?)) AND action = ?
      AND (? IS NULL OR limit_key = ?)`;
    const values = [JSON.stringify(arrivals), action, limitKey ?? null, limitKey ?? null];
    return this.#database.get<{ count: number }>(count, ...values)?.count ?? 0;
  }

  /** Returns when the longest waiting message became due. */
  oldest(): number | undefined {
    return this.#database.get<{ runAt: number | null }>(OLDEST)?.runAt ?? undefined;
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
   * and starts if the clock was set back.
   *
   * @param onEnd called for each message that is dead-lettered, or deleted because its cancellation was requested
   * @returns the dead-lettered tasks
   */
  recover(now: number, onEnd: (message: EndedMessage, status: db.EndStatus) => void): db.TaskSubject[] {
    this.limits.load();
    const lost = this.#database.all<
      LostMessage & HeldMessage & EndedMessage
    >(`SELECT arrival, delivery, id, action, priority, limit_key, place, started_at, started_at AS startedAt,
      run_at AS dueAt, attempts, crashes, deaths, history, traceparent, callback_url AS callbackUrl, callback_of AS callbackOf,
      cancel_requested AS isCancelRequested FROM messages WHERE state = 'running'`);
    const failed: db.TaskSubject[] = [];
    for (const { priority, limit_key, place, started_at, callbackUrl, traceparent, ...message } of lost) {
      const change = deathOf(message, now);
      const changed = this.change(change, now);
      const ended = { ...message, callbackUrl, traceparent };
      if (changed === 'cancelled') onEnd(ended, 'cancelled');
      if (change.state !== 'failed') continue;
      onEnd(ended, 'failed');
      failed.push({ id: message.id, action: message.action ?? undefined });
    }
    // A waiting message of the future, or a retry too far in it, means that the clock was set back.
    for (const [condition, latest] of [
      ["state = 'waiting'", now],
      ['place < 2', now],
      ["state = 'retrying'", now + LONGEST_WAIT_MS],
    ] as const) {
      this.#database.run(`UPDATE messages SET run_at = ? WHERE ${condition} AND run_at > ?`, latest, latest);
    }
    this.#database.run(CORRECT_STARTS, now);
    // After all have left their places.
    for (const { action } of this.limits.list()) this.place(action);
    return failed;
  }
}

/** A message that is inserted. Only a callback has `callbackOf`. */
export type NewMessage = db.Message & Partial<Pick<db.Delivery, 'callbackOf'>>;

/** A message that leaves the queue, with what its callback needs. */
export interface EndedMessage {
  id: string;
  action?: string | null | undefined;
  traceparent?: string | null | undefined;
  callbackUrl?: string | null | undefined;
}

type DueRow = Parameters<typeof deliveryOf> extends [Limits, ...infer Values] ? Values : never;

type HeldMessage = Due & Held;
type DueLater = Due & { run_at: number };

export interface MessageFacts extends Due, EndedMessage {
  action: string | null;
  submitter: string | null;
  state: db.MessageState;
  bytes: number;
}

function deliveryOf(
  limits: Limits,
  arrival: number,
  id: string,
  action: string | null,
  priority: number,
  limitKey: string | null,
  round: number,
  body: string,
  delivery: number,
  dueAt: number,
  attempt: number,
  crashes: number,
  deaths: number,
  history: string | null,
  submitter: string | null,
  traceparent: string | null,
  callbackUrl: string | null,
  callbackOf: string | null,
  bytes: number,
): SizedDelivery {
  const { rate, perKey } = limits.of(action) ?? {};
  return {
    arrival,
    id,
    action: action ?? undefined,
    priority,
    limitKey: limitKey ?? undefined,
    round,
    body,
    delivery,
    dueAt,
    attempt,
    crashes,
    bytes,
    isRated: rate !== undefined || perKey?.rate !== undefined,
    isSuspect: deaths >= SUSPECT_DEATHS,
    history: readHistory(history),
    submitter: submitter ?? undefined,
    traceparent: traceparent ?? undefined,
    callbackUrl: callbackUrl ?? undefined,
    callbackOf: callbackOf ?? undefined,
  };
}

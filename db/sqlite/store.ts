import { join } from 'node:path';
import {
  BULK_SLICE,
  type ChangedSlice,
  changeInSlices,
  changeOf,
  type MessageChange,
  rowOf,
} from '../message-change.ts';
import { taskReads } from '../reads.ts';
import { type Advanced, Schedules, type Value } from '../schedules.ts';
import type * as db from '../task-store.ts';
import {
  CALLBACK_ACTION,
  CALLBACK_PRIORITY,
  DatabaseUnavailable,
  deadLetterBounds,
  dueAt,
  KeyReused,
  QueueFull,
  SUSPECT_INTERVAL_MS,
  sizeOf,
  subjectOf,
  TAKES_PER_LONGEST,
  unfinished,
  ValueRefused,
} from '../task-store.ts';
import { type Counters, countersOf } from './counters.ts';
import { Database, fileUrl, IN_MEMORY } from './database.ts';
import { IdempotencyKeys } from './idempotency-keys.ts';
import { type EndedMessage, Messages, type NewMessage, type SizedDeadLetter, type SizedDelivery } from './messages.ts';
import { createQueueTables } from './migrate.ts';
import { retentionPass } from './retention.ts';
import { dialect, storeRow } from './tasks.ts';
import { isValueError, TurnWriter } from './turn-writer.ts';
import { type SyncFile, WalSync } from './wal-sync.ts';

export interface SqliteStoreOptions {
  dataDir: string;
  /** Where the tables of the queue are: in memory, or in the file beside the rows. */
  driver: 'memory' | 'sqlite';
  bounds: db.QueueBounds;
  /** Returns the time in whole milliseconds since the epoch. */
  now: () => number;
  /** Returns a random UUID v4. */
  newId: () => string;
  /** Returns the number of task rows beyond the newest `rows`. Counts them in another thread, because that takes long. */
  excessRows: (rows: number) => Promise<number>;
  /** Called if the queue in memory could not be saved. */
  onSaveFailed?: (error: unknown) => void;
  /** Syncs the log. By default with `fdatasync`. */
  syncFile?: SyncFile;
}

const QUEUE_TABLES = ['messages', 'limits', 'limit_starts', 'schedules', 'idempotency_keys', 'queue_state'];

const NOTHING: db.Taken = { deliveries: [], nextRunAt: undefined };

const SAVE_TIMEOUT_MS = 5000;
/** Maximum wait for another program's lock on the file. Short, because the wait blocks the event loop. */
const BUSY_TIMEOUT_MS = 50;

/**
 * Task store in the migrated file `tasks.db`, with the queue's tables in the same file or in memory. The only writer of
 * the file, so the caller must have locked the data folder.
 */
export class SqliteStore implements db.TaskStore {
  readonly reads: db.TaskReads;
  readonly schedules: Schedules;
  readonly isShared = false;
  readonly isDurable: boolean;
  readonly #file: Database;
  /** Database with the queue's tables: in memory, or the file. */
  readonly #queue: Database;
  readonly #writer: TurnWriter;
  readonly #messages: Messages;
  readonly #keys: IdempotencyKeys;
  readonly #counters: Counters = countersOf([], 0);
  readonly #options: SqliteStoreOptions;
  readonly #log: WalSync | undefined;
  #retention: ReturnType<typeof retentionPass> | undefined;
  /** Positions of the messages in flight, so that no index on running messages is needed. */
  readonly #running = new Set<number>();
  #lastArrival = 0;
  /** Positions of messages that were suspects at the start, next to run first. Only a start makes suspects. */
  #suspects: number[] = [];
  /** When the next suspect runs although other messages are due. */
  #nextSuspectAt: number;
  readonly #exhausted: readonly db.TaskSubject[];
  #syncFailure: string | undefined;
  /** When the first scheduled or retrying message is due, or earlier. */
  #nextDueAt = Number.POSITIVE_INFINITY;
  #oldest: number | undefined;
  #isPaused = false;
  #isStarted = false;
  #published = 0;
  #isClosed = false;

  /** @throws {Error} if the file is unusable */
  constructor(options: SqliteStoreOptions) {
    const { dataDir, driver, bounds, now, syncFile } = options;
    const path = join(dataDir, 'tasks.db');
    this.isDurable = driver === 'sqlite';
    const file = { busyTimeoutMs: BUSY_TIMEOUT_MS, checkpointPages: 0 };
    this.#file = new Database(path, this.isDurable ? { ...file, onReplaced: () => this.#load() } : file);
    this.#queue = this.isDurable ? this.#file : new Database(IN_MEMORY, { busyTimeoutMs: 0 });
    this.#log = this.isDurable ? new WalSync(path, syncFile) : undefined;
    this.#writer = new TurnWriter({ queue: this.#queue, file: this.#file, counters: this.#counters });
    this.#messages = new Messages(this.#queue, this.#counters);
    this.reads = taskReads({ ...dialect, running: () => [...this.#running] }, this.#queue.read, this.#file.read);
    this.#keys = new IdempotencyKeys(this.#queue, this.#counters, bounds.maxKeys);
    this.schedules = new Schedules({
      read: this.#queue.read,
      write: (statement, values) => this.#writeSynced(() => this.#queue.read(statement, values)),
      fire: (advance, values, message, onAccepted) => {
        const run = () => this.#fire(advance, values, message);
        return this.#writeSynced<Advanced | undefined>(run, (row) => row?.isFired && onAccepted());
      },
    });
    this.#options = options;
    this.#nextSuspectAt = now() + SUSPECT_INTERVAL_MS;
    if (!this.isDurable) {
      createQueueTables(this.#queue);
      // The file keeps the saved queue until `start`.
      this.#attachFile();
      for (const table of QUEUE_TABLES) this.#queue.exec(`INSERT INTO main.${table} SELECT * FROM file.${table}`);
      this.#queue.exec('DETACH file');
    }
    this.#exhausted = this.#load();
  }

  /** Deletes the saved queue, which is in memory now. Returns the tasks that were dead-lettered at the open. */
  start(): readonly db.TaskSubject[] {
    const deleteSaved = () => {
      for (const table of QUEUE_TABLES) this.#file.run(`DELETE FROM ${table}`);
    };
    if (!this.isDurable) this.#writer.writeNow(deleteSaved, true);
    this.#isStarted = true;
    return this.#exhausted;
  }

  async publish(message: db.Message, key?: db.IdempotencyKey, onAccepted?: () => void): Promise<db.Published> {
    const [published] = await this.publishAll([{ message, key }], onAccepted);
    if (published instanceof Error) throw published;
    return published as db.Published;
  }

  async publishAll(
    submissions: readonly db.Submission[],
    onAccepted = (_: readonly db.Message[]) => {},
  ): Promise<readonly (db.Published | KeyReused)[]> {
    const insert = () => this.#insertAll(submissions);
    const { results } = await this.#writeSynced(insert, ({ accepted }) => {
      if (accepted.length > 0) onAccepted(accepted);
    });
    return results;
  }

  take(max: number, isIdle: boolean): db.Awaitable<db.Taken> {
    if (this.#writer.held !== undefined) return this.#writer.held.then(() => this.take(max, isIdle));
    if (this.#isClosed || max <= 0 || !this.#mayTake()) return NOTHING;
    const now = this.#options.now();
    const suspect = this.#nextSuspect();
    const isSuspectDue = suspect !== undefined && now >= this.#nextSuspectAt;
    if (isSuspectDue && !isIdle) return NOTHING;
    const next = isSuspectDue ? undefined : this.#next();
    const alone = isIdle && next === undefined ? suspect : undefined;
    if (alone !== undefined) this.#nextSuspectAt = now + SUSPECT_INTERVAL_MS;
    return this.#takeFrom(next ?? alone, alone === undefined ? max : 1, () => this.#next());
  }

  takeCallbacks(max: number): db.Awaitable<db.Taken> {
    if (this.#writer.held !== undefined) return this.#writer.held.then(() => this.takeCallbacks(max));
    if (this.#isClosed || !this.#mayTake()) return NOTHING;
    const next = () => this.#messages.nextCallback();
    return this.#takeFrom(next(), max, next);
  }

  settle(settled: readonly db.Settled[]): db.Awaitable<db.SettleResult> {
    if (this.#writer.held !== undefined) return this.#writer.held.then(() => this.settle(settled));
    const needsRows = settled.some(({ settlement }) => 'result' in settlement);
    const settleAll = () => {
      const now = this.#options.now();
      const effects = settled.map((each) => this.#settle(each, now));
      const isDiscard = settled.some(({ settlement }) => settlement.kind === 'discard');
      return { effects, evicted: isDiscard ? this.#evict() : [] };
    };
    try {
      const result = this.#writer.writeNow(settleAll, needsRows);
      this.#rememberStarts();
      for (const [index, { delivery }] of settled.entries()) {
        // A later delivery of the message may be in flight.
        if (result.effects[index] !== 'late') this.#running.delete(delivery.arrival);
      }
      return result;
    } catch (error) {
      throw isValueError(error) ? new ValueRefused((error as Error).message, { cause: error }) : error;
    }
  }

  async runNow(id: string, onDue = (_: db.TaskSubject) => {}): Promise<db.RunNow | undefined> {
    const found = await this.#writer.write(() => {
      const message = this.#messages.state(id);
      if (message?.state === 'scheduled' || message?.state === 'retrying') {
        this.#messages.runNow(message, this.#options.now());
        this.#counters[message.state] -= 1;
      }
      return message;
    });
    if (found === undefined) return (await this.reads.rows.position(id)) && 'ended';
    if (found.state === 'failed') return 'ended';
    if (found.state === 'running') return 'running';
    if (found.state === 'scheduled' || found.state === 'retrying') onDue(subjectOf(found));
    await this.#sync();
    return 'due';
  }

  async cancel(id: string): Promise<db.Cancellation | undefined> {
    const cancellation = await this.#writer.write(() => this.#cancel(id));
    // Also if the message is gone, because another cancellation may have deleted it a moment ago.
    await this.#sync();
    return cancellation ?? ((await this.reads.rows.position(id)) && { outcome: 'ended', action: undefined });
  }

  cancelRequests(ids: readonly string[]): string[] {
    return ids.filter((id) => this.#messages.isCancelRequested(id));
  }

  /** Stores the starts of tasks whose actions have limits of them. */
  report(running: readonly db.Report[]): db.Awaitable<void> {
    if (this.#writer.held !== undefined) return this.#writer.held.then(() => this.report(running));
    const rated = running.filter(({ delivery }) => delivery.isRated);
    if (rated.length === 0) return;
    this.#writer.writeNow(() => {
      for (const { delivery, startedAt } of rated) this.#messages.start(delivery, startedAt);
    }, false);
    this.#rememberStarts();
  }

  limits(): readonly db.StoredLimits[] {
    return this.#messages.limits.list().map((limits) => {
      const { running, nextStartAt } = this.limitOf(limits.action);
      return { ...limits, use: { running, nextStartAt } };
    });
  }

  async setLimits(
    action: string,
    limits: db.ActionLimits | undefined,
    source: db.LimitSource,
    onSet = () => {},
  ): Promise<void> {
    while (this.#writer.held !== undefined) await this.#writer.held;
    try {
      this.#writer.writeNow(() => {
        const former = this.#messages.limits.of(action);
        this.#messages.limits.store({ action, limits, source });
        this.#messages.limits.load();
        this.#messages.place(action, this.#running, former);
      }, false);
    } catch (error) {
      this.#messages.limits.load();
      throw error;
    }
    this.#rememberStarts();
    onSet();
    await this.#sync();
  }

  limitOf(action: string, limitKey?: string): db.UsedLimit {
    const running = this.#messages.countRunning([...this.#running], action, limitKey);
    return { ...this.#messages.limits.find(action, limitKey), running };
  }

  isPaused(): boolean {
    return this.#isPaused;
  }

  async setPaused(isPaused: boolean, at?: number): Promise<void> {
    await this.#writer.write(() => {
      const former = this.#queue.get<{ pausedAt: number | null }>('SELECT paused_at AS pausedAt FROM queue_state');
      const pausedAt = isPaused ? (former?.pausedAt ?? at ?? null) : null;
      this.#queue.run('DELETE FROM queue_state');
      this.#queue.run('INSERT INTO queue_state (paused, paused_at) VALUES (?, ?)', Number(isPaused), pausedAt);
    });
    this.#isPaused = isPaused;
    await this.#sync();
  }

  redrive(
    arrivals: readonly number[],
    onRequeued?: (tasks: readonly db.TaskSubject[]) => void,
    pace?: db.Pace,
  ): Promise<db.BulkResult> {
    let index = 0;
    const requeue = (letter: SizedDeadLetter) => {
      if (this.#fullness(letter.bodyBytes) !== undefined) return false;
      const runAt = pace && dueAt(pace, index);
      this.#messages.redrive(letter, this.#options.now(), runAt);
      this.#nextDueAt = Math.min(this.#nextDueAt, runAt ?? Number.POSITIVE_INFINITY);
      index += 1;
      this.#counters.bytes += letter.bodyBytes;
      return true;
    };
    return this.#changeAll(arrivals, requeue, onRequeued);
  }

  purge(arrivals: readonly number[]): Promise<db.BulkResult> {
    return this.#changeAll(arrivals, (letter) => {
      this.#messages.delete(letter);
      this.#counters.dropped += 1;
      return true;
    });
  }

  async saveHistory(id: number, text: string): Promise<void> {
    while (this.#writer.held !== undefined) await this.#writer.held;
    const save = 'INSERT OR REPLACE INTO queue_history (id, history) VALUES (?, ?)';
    this.#writer.writeNow(() => this.#file.run(save, id, text), true);
  }

  counts(): db.QueueCounts {
    const { deadBytes: _, keys: __, taken: ___, ...counters } = this.#counters;
    try {
      this.#oldest = this.#messages.oldest();
    } catch (error) {
      // While the file is away, the last value stands in.
      if (!(error instanceof DatabaseUnavailable)) throw error;
    }
    return { ...counters, oldest: this.#oldest };
  }

  async deleteOldRows({ before, rows }: db.RetentionLimits): Promise<boolean> {
    const excess = this.#retention === undefined && rows !== undefined ? await this.#options.excessRows(rows) : 0;
    while (this.#writer.held !== undefined) await this.#writer.held;
    // The pass is over after its last step, and after an error.
    this.#retention ??= retentionPass(this.#file, excess, before);
    const pass = this.#retention;
    const isOver = this.#writer.writeNow(() => pass.next().done === true, true);
    if (isOver) this.#retention = undefined;
    return !isOver;
  }

  /** Holds all writes until `resumeWrites`, while the maintenance thread restarts the log. */
  holdWrites(): void {
    this.#writer.hold();
  }

  resumeWrites(): void {
    this.#writer.resume();
  }

  /** Returns the reason why the last write or sync failed, or why the file cannot be read. Retries what failed. */
  problem(): string | undefined {
    // While the service is not ready, no submission may arrive whose sync would clear the failure.
    if (this.#syncFailure !== undefined) this.#sync().catch(() => {});
    try {
      this.#file.probe();
      // Writes nothing new, but only succeeds if the file can be written.
      if (this.#writer.failure !== undefined && this.#writer.held === undefined)
        this.#writer.writeNow(() => this.#file.rewritePage(), true);
    } catch (error) {
      return (error as Error).message;
    }
    return this.#writer.failure ?? this.#syncFailure;
  }

  async close(): Promise<boolean> {
    if (this.#isClosed) return true;
    this.#writer.resume();
    this.#isClosed = true;
    try {
      this.#file.probe();
      // Before `start`, the file still has the saved queue.
      if (!this.isDurable && (this.#isStarted || this.#published > 0)) this.#save();
      return true;
    } catch (error) {
      this.#options.onSaveFailed?.(error);
      return unfinished(this.#counters) === 0;
    } finally {
      this.#queue.close();
      this.#file.close();
    }
  }

  /** Replaces the queue in the file by the queue in memory. Running messages run again, without a death. */
  #save(): void {
    this.#attachFile();
    this.#queue.exec(`PRAGMA busy_timeout = ${SAVE_TIMEOUT_MS}; PRAGMA file.synchronous = FULL`);
    this.#queue.transaction(() => {
      for (const message of this.#messages.deleteCancelled()) this.#addCallback(message, 'cancelled');
      this.#queue.run("UPDATE main.messages SET state = 'waiting', started_at = NULL WHERE state = 'running'");
      // The tables of both were created by the same statements, so their columns have the same order.
      for (const table of QUEUE_TABLES) {
        this.#queue.run(`DELETE FROM file.${table}`);
        this.#queue.run(`INSERT INTO file.${table} SELECT * FROM main.${table}`);
      }
    });
  }

  /** Attaches the file to the queue in memory, so that SQLite itself copies the tables. */
  #attachFile(): void {
    this.#file.probe();
    this.#queue.run('ATTACH ? AS file', fileUrl(join(this.#options.dataDir, 'tasks.db'), 'mode=rw').href);
  }

  /** Reads the state that the tables have, and makes running messages wait. Returns the tasks that were dead-lettered. */
  #load(): db.TaskSubject[] {
    const now = this.#options.now();
    // The time in microseconds exceeds the position of every row, unless the clock was set back.
    const lastRow = 'SELECT ifnull(max(rowid), 0) AS last FROM tasks';
    const { last } = this.#file.get(lastRow) as { last: number };
    this.#lastArrival = Math.max(now * 1000, this.#messages.lastArrival(), last);
    const onEnd = (message: EndedMessage, status: db.EndStatus) => this.#addCallback(message, status);
    const exhausted = this.#writer.writeNow(() => this.#messages.recover(now, onEnd), false);
    this.#running.clear();
    this.#suspects = this.#messages.suspects();
    this.#nextDueAt = this.#messages.nextDueAt();
    this.#messages.rounds.load();
    this.#isPaused = this.#queue.get('SELECT 1 FROM queue_state WHERE paused = 1') !== undefined;
    Object.assign(this.#counters, countersOf(this.#messages.totals(), this.#keys.count()));
    return exhausted;
  }

  /**
   * Writes and syncs.
   *
   * @param onWritten called after the commit
   * @throws {QueueFull} if that is what `run` returns
   */
  async #writeSynced<T>(run: () => T | QueueFull, onWritten = (_: T) => {}): Promise<T> {
    // While syncs fail, a submission is refused before it is written, because its task would run although it was refused.
    if (this.#syncFailure !== undefined) await this.#sync();
    const result = await this.#writer.write(run);
    if (result instanceof QueueFull) throw result;
    onWritten(result);
    if (this.isDurable) await this.#sync();
    return result;
  }

  /** Changes nothing before it is known that all fit, and that no key belongs to another submission. */
  #insertAll(
    submissions: readonly db.Submission[],
  ): { results: (db.Published | KeyReused)[]; accepted: db.Message[] } | QueueFull {
    const now = this.#options.now();
    /** Submissions with new keys, by key. */
    const keyed = new Map<string, db.Submission>();
    const fresh: db.Submission[] = [];
    const results = submissions.map((submission): db.Published | KeyReused => {
      const { message, key } = submission;
      const twin = key && keyed.get(key.key);
      if (twin !== undefined) {
        const isSame = twin.key?.fingerprint === key?.fingerprint;
        return isSame ? { id: twin.message.id, isNew: false } : new KeyReused();
      }
      const earlier = key && this.#keys.taskOf(key, now);
      if (earlier !== undefined) return earlier instanceof Error ? earlier : { id: earlier, isNew: false };
      if (key !== undefined) keyed.set(key.key, submission);
      fresh.push(submission);
      return { id: message.id, isNew: true };
    });
    if (results.some((each) => each instanceof Error)) {
      const unchanged = results.map((each) => (each instanceof Error ? each : { ...each, isNew: false }));
      return { results: unchanged, accepted: [] };
    }
    const size = fresh.reduce((sum, { message }) => sum + sizeOf(message), 0);
    const full = fresh.length === 0 ? undefined : this.#fullness(size, fresh.length);
    if (full !== undefined) return full;
    for (const { message, key } of fresh) this.#insert(message, key, now);
    this.#published += fresh.length;
    return { results, accepted: fresh.map(({ message }) => message) };
  }

  #fire(advance: string, values: readonly Value[], message: db.Message | undefined): Advanced | QueueFull | undefined {
    this.#queue.run('SAVEPOINT firing');
    const [row] = this.#queue.read<Advanced>(advance, values);
    const isFired = message !== undefined && row?.isFired;
    const full = isFired ? this.#fullness(sizeOf(message)) : undefined;
    // The transaction has other writes, too.
    if (full !== undefined) this.#queue.run('ROLLBACK TO firing');
    else if (isFired) this.#insert(message, undefined, this.#options.now());
    this.#queue.run('RELEASE firing');
    return full ?? row;
  }

  #insert(message: NewMessage, key: db.IdempotencyKey | undefined, now: number): void {
    this.#lastArrival += 1;
    this.#messages.insert(this.#lastArrival, message, now);
    this.#nextDueAt = Math.min(this.#nextDueAt, message.runAt ?? Number.POSITIVE_INFINITY);
    if (key !== undefined) this.#keys.add(key, message.id, now);
    this.#counters.accepted += 1;
    this.#counters.bytes += sizeOf(message);
  }

  /** Inserts the callback of a task that ends now, if it has one, also if the queue is full, because it replaces a message. */
  #addCallback({ id: task, action, traceparent, callbackUrl: url }: EndedMessage, status: db.EndStatus): void {
    if (!url) return;
    const now = this.#options.now();
    const id = this.#options.newId();
    const data: db.CallbackData = { url, task, action: action ?? null, status };
    const body = JSON.stringify({ id, action: CALLBACK_ACTION, data, created_at: Math.floor(now / 1000) });
    // The host of a normalised URL, with its port unless that is the default.
    const order = { priority: CALLBACK_PRIORITY, limitKey: url.split('/')[2] ?? '' };
    const origin = { traceparent: traceparent ?? undefined, callbackOf: task };
    this.#insert({ id, action: CALLBACK_ACTION, body, ...order, ...origin }, undefined, now);
  }

  /** Returns why messages of this size would exceed a bound, or undefined if they fit. */
  #fullness(bytes: number, count = 1): QueueFull | undefined {
    const { maxLength, maxBytes } = this.#options.bounds;
    const { bytes: used } = this.#counters;
    const length = unfinished(this.#counters);
    if (length + count > maxLength) return new QueueFull(`the queue holds ${length} messages`);
    return used + bytes > maxBytes ? new QueueFull(`the queue holds ${used} bytes`) : undefined;
  }

  #settle(settled: db.Settled, now: number): db.Effect {
    const { settlement } = settled;
    const { kind } = settlement;
    const delivery = settled.delivery as SizedDelivery;
    // Its start may not have been reported, and counts.
    if (kind === 'release' && settled.startedAt !== undefined) this.#messages.start(delivery, settled.startedAt);
    if (kind === 'retry' || kind === 'discard' || kind === 'release') {
      return this.#change(delivery, changeOf(settled, now), now);
    }
    // The message of a row is gone already.
    if (kind !== 'row' && !this.#messages.end(delivery, now)) return 'late';
    if ('result' in settlement) storeRow(this.#file, delivery.arrival, rowOf(settled, settlement.result, now));
    if (kind !== 'row') this.#leave(delivery, kind === 'cancel' ? 'cancelled' : 'completed');
    return 'applied';
  }

  /** Makes a delivery wait again or dead-letters it. Instead of waiting, a cancelled message is deleted. */
  #change(delivery: SizedDelivery, change: MessageChange, now: number): db.Effect {
    const counters = this.#counters;
    const bytes = this.#messages.change(change, now);
    if (bytes === 'cancelled') this.#leave(delivery, 'cancelled');
    if (typeof bytes === 'string') return bytes;
    if (change.state === 'failed') {
      this.#leave(delivery, 'failed');
      counters.dead += 1;
      counters.deadBytes += bytes;
    } else {
      counters.inFlight -= 1;
      counters.bytes += bytes - delivery.bytes;
      if (change.state === 'retrying') {
        counters.retrying += 1;
        this.#nextDueAt = Math.min(this.#nextDueAt, change.runAt ?? 0);
      }
      if (change.attempts !== undefined) counters.retried += 1;
    }
    return 'applied';
  }

  #leave(delivery: SizedDelivery, total: db.EndStatus): void {
    this.#counters.inFlight -= 1;
    this.#counters.bytes -= delivery.bytes;
    this.#counters[total] += 1;
    this.#addCallback(delivery, total);
  }

  #cancel(id: string): db.Cancellation | undefined {
    const found = this.#messages.state(id);
    if (found === undefined) return undefined;
    const { id: _, ...task } = subjectOf(found);
    if (found.state === 'failed') return { outcome: 'ended', ...task };
    if (found.state === 'running') {
      this.#messages.requestCancellation(found.arrival);
      return { outcome: 'requested', ...task };
    }
    this.#messages.delete(found);
    this.#counters[found.state] -= 1;
    this.#counters.bytes -= found.bytes;
    this.#counters.cancelled += 1;
    this.#addCallback(found, 'cancelled');
    return { outcome: 'cancelled', ...task };
  }

  #evict(): db.TaskSubject[] {
    const { maxLength, maxBytes } = deadLetterBounds;
    const evicted: db.TaskSubject[] = [];
    while (this.#counters.dead > maxLength || this.#counters.deadBytes > maxBytes) {
      const oldest = this.#messages.oldestDeadLetter();
      if (oldest === undefined) break;
      this.#messages.delete(oldest);
      this.#removeDeadLetter(oldest);
      this.#counters.dropped += 1;
      this.#counters.evicted += 1;
      evicted.push(subjectOf(oldest));
    }
    return evicted;
  }

  #removeDeadLetter({ bytes }: SizedDeadLetter): void {
    this.#counters.dead -= 1;
    this.#counters.deadBytes -= bytes;
  }

  /** Changes dead letters in this order, until `change` returns false for one. */
  async #changeAll(
    selected: readonly number[],
    change: (letter: SizedDeadLetter) => boolean,
    onChanged?: (tasks: readonly db.TaskSubject[]) => void,
  ): Promise<db.BulkResult> {
    const changeSlice = (arrivals: readonly number[]) => this.#writer.write(() => this.#changeSlice(arrivals, change));
    const result = await changeInSlices(selected, changeSlice, onChanged);
    if (result.done.length > 0) await this.#sync();
    return result;
  }

  /** Changes the first of these dead letters that still exist: up to the size of a slice, but at least one. */
  #changeSlice(arrivals: readonly number[], change: (letter: SizedDeadLetter) => boolean): ChangedSlice {
    const done: db.TaskSubject[] = [];
    let bytes = 0;
    for (const [index, arrival] of arrivals.entries()) {
      const letter = this.#messages.deadLetter(arrival);
      if (letter === undefined) continue;
      bytes += letter.bytes;
      const isTooLarge = done.length > 0 && bytes > BULK_SLICE.maxBytes;
      if (isTooLarge || !change(letter)) return { done, kept: arrivals.slice(index) };
      this.#removeDeadLetter(letter);
      done.push(subjectOf(letter));
    }
    return { done, kept: [] };
  }

  /** Starts were recorded whose time will pass. */
  #rememberStarts(): void {
    this.#nextDueAt = Math.min(this.#nextDueAt, this.#messages.limits.nextStartEnd());
  }

  /** Returns the message to take next, unless that is a suspect. */
  #next(): SizedDelivery | undefined {
    return this.#messages.next(this.#isLongestNext());
  }

  #isLongestNext(): boolean {
    return (this.#counters.taken + 1) % TAKES_PER_LONGEST === 0;
  }

  /** Makes messages wait that are due. Returns whether any may be taken. */
  #mayTake(): boolean {
    const now = this.#options.now();
    if (this.#nextDueAt <= now) {
      const stage = () => {
        this.#messages.stage(now);
        return this.#messages.nextDueAt();
      };
      // Only after the commit, which may fail.
      this.#nextDueAt = this.#writer.writeNow(stage, false);
    }
    return !this.#isPaused && !this.#suspects.some((arrival) => this.#running.has(arrival));
  }

  /** Takes the first message and the messages that `following` returns, up to `max`. */
  #takeFrom(first: SizedDelivery | undefined, max: number, following: () => SizedDelivery | undefined): db.Taken {
    const deliveries = first === undefined ? [] : this.#writer.writeNow(() => this.#mark(first, max, following), false);
    for (const { arrival } of deliveries) this.#running.add(arrival);
    if (this.#counters.waiting === 0) this.#messages.rounds.reset();
    const isLater = deliveries.length < max && this.#nextDueAt < Number.POSITIVE_INFINITY;
    return { deliveries, nextRunAt: isLater ? this.#nextDueAt : undefined };
  }

  #mark(first: SizedDelivery, max: number, following: () => SizedDelivery | undefined): SizedDelivery[] {
    const deliveries: SizedDelivery[] = [];
    for (let next: SizedDelivery | undefined = first; next !== undefined; ) {
      this.#messages.markTaken(next);
      // A message taken because it has waited longest does not advance the present round.
      if (!this.#isLongestNext()) this.#messages.rounds.taken(next.priority, next.round);
      deliveries.push(next);
      if (next.callbackOf === undefined) this.#counters.taken += 1;
      next = deliveries.length < max ? following() : undefined;
    }
    this.#counters.waiting -= deliveries.length;
    this.#counters.inFlight += deliveries.length;
    return deliveries;
  }

  /** Returns the first suspect that waits. Forgets suspects that have ended or survived an attempt, so that no other message waits. */
  #nextSuspect(): SizedDelivery | undefined {
    this.#suspects = this.#suspects.filter((arrival) => this.#messages.isSuspect(arrival));
    for (const arrival of this.#suspects) {
      const message = this.#messages.waiting(arrival);
      if (message !== undefined) return message;
    }
    return undefined;
  }

  async #sync(): Promise<void> {
    try {
      await this.#log?.sync();
      this.#syncFailure = undefined;
    } catch (error) {
      this.#syncFailure = (error as Error).message;
      throw error;
    }
  }
}

import { changeInSlices, changeOf, deathOf, type LostMessage, type MessageChange } from '../message-change.ts';
import { taskReads } from '../reads.ts';
import { type Advanced, Schedules, type Value } from '../schedules.ts';
import { actionText } from '../task-rows.ts';
import type * as db from '../task-store.ts';
import { DatabaseUnavailable, QueueFull, SUSPECT_INTERVAL_MS, sizeOf, TAKES_PER_LONGEST } from '../task-store.ts';
import { Batches } from './batches.ts';
import { COUNTS, type Counter, type CountsRow, FOLD_COUNTS, type Lane, lockLimits } from './counts.ts';
import { type BoundStatement, CHANNEL, LONG_LIMIT_MS, type PostgresDatabase, type Query } from './database.ts';
import * as deadLetters from './dead-letters.ts';
import * as messages from './messages.ts';
import { Retention } from './retention.ts';
import { publish, publishAll, publishTogether, type Room } from './submissions.ts';
import { actionOf, dialect, isText } from './tasks.ts';

export interface PostgresStoreOptions {
  bounds: db.QueueBounds;
  /** Returns the time in whole milliseconds since the epoch. */
  now: () => number;
  /** Random id of this start of the process. */
  owner: string;
}

export interface StoreDatabases {
  /** Needs {@link WRITE_CONNECTIONS} connections, so that no kind of write waits for another. */
  writes: PostgresDatabase;
  reads: PostgresDatabase;
}

/** Submissions, groups of submissions, settlements, operations and retention: one connection each. */
export const WRITE_CONNECTIONS = 5;

type Work = { settled: readonly db.Settled[] } | messages.Taking | { running: readonly db.Report[] };

interface FoundState extends deadLetters.LetterRow {
  state: db.MessageState;
}

/** Longest time between two looks for messages that have become due. */
const LOOK_MS = 1000;
const RECOVERED_SLICE = 100;

// All nodes are notified in the same transaction, because this node could die between the two.
const SET_PAUSED = `WITH state AS (
    UPDATE queue_state SET paused = $1, paused_at = CASE WHEN $1 THEN coalesce(paused_at, $2) END RETURNING paused
  ) SELECT pg_notify(${CHANNEL}, '{"from":"","topic":"pause"}') FROM state`;

/** Task store in PostgreSQL, which several nodes share. The tables must be migrated. */
export class PostgresStore implements db.TaskStore {
  readonly reads: db.TaskReads;
  readonly schedules: Schedules;
  readonly isShared = true;
  readonly isDurable = true;
  readonly #writes: PostgresDatabase;
  readonly #reads: PostgresDatabase;
  readonly #bounds: db.QueueBounds;
  readonly #now: () => number;
  readonly #owner: string;
  readonly #submissions: Batches<db.Submission, db.Published | Error>;
  /** Submissions of several tasks at once, each in a transaction of its own. */
  readonly #groups: Batches<readonly db.Submission[], (db.Published | db.KeyReused)[]>;
  readonly #work: Batches<Work, db.SettleResult | db.Taken | undefined>;
  readonly #cancellations: Batches<string, db.Cancellation | undefined>;
  #lastOperation: Promise<unknown> = Promise.resolve();
  readonly #retention: Retention;
  /** Deliveries that were handed out and are not settled, by position. */
  readonly #held = new Map<number, db.Delivery>();
  /** Whether this node may own messages that it does not hold, because the answer to a take was lost. */
  #mayOwnMore = false;
  /** When a suspect runs although other messages are due. */
  #nextSuspectAt: number;
  /** When the first scheduled or retrying message is due that this node knows, or earlier. */
  #nextDueAt = Number.POSITIVE_INFINITY;
  /** When to look for messages that are due, because other nodes add some. */
  #lookAt = 0;
  #askedFor = 0;
  #evicted = 0;
  #onRecovered = (_: db.Recovery) => {};
  #failure: string | undefined;
  #probing: Promise<void> | undefined;

  constructor({ writes, reads }: StoreDatabases, { bounds, now, owner }: PostgresStoreOptions) {
    this.#writes = writes;
    this.#reads = reads;
    this.#bounds = bounds;
    this.#now = now;
    this.#owner = owner;
    this.#nextSuspectAt = now() + SUSPECT_INTERVAL_MS;
    this.reads = taskReads(dialect, reads.query);
    this.#retention = new Retention(writes);
    this.schedules = new Schedules({
      read: reads.query,
      write: (statement, values) => this.#operate(() => writes.query(statement, values)),
      fire: (advance, values, message, onAccepted) => this.#fire(advance, values, message, onAccepted),
    });
    this.#submissions = new Batches(
      (items) => this.#watch(publishAll(writes, this.#counter('submissions'), items, now(), bounds)),
      ({ message }) => sizeOf(message),
    );
    this.#groups = new Batches(
      async ([group = []]) => [
        await this.#watch(publishTogether(writes, this.#counter('groups'), group, now(), bounds)),
      ],
      (group) => group.reduce((sum, { message }) => sum + sizeOf(message), 0),
      1,
    );
    this.#cancellations = new Batches(
      (ids: readonly string[]) => this.#cancelAll(ids),
      ({ length }) => length,
    );
    this.#work = new Batches(
      (items) => this.#watch(this.#runWork(items)),
      (work) => ('settled' in work ? lengthOf(work.settled) : 0),
    );
  }

  /** Corrects the times of messages and starts if the clock was set back, and deletes acks that no row will follow. */
  async start(): Promise<readonly db.TaskSubject[]> {
    const now = this.#now();
    const work = async (query: Query) => {
      await query(...lockLimits(now));
      await query(messages.START, [now]);
    };
    await this.#writes.transaction(work, { timeLimitMs: LONG_LIMIT_MS });
    return [];
  }

  async publish(message: db.Message, key?: db.IdempotencyKey, onAccepted = () => {}): Promise<db.Published> {
    const published = await this.#submissions.add({ message, key });
    if (published instanceof Error) throw published;
    this.#rememberDue(message.runAt);
    if (published.isNew) onAccepted();
    return published;
  }

  async publishAll(
    submissions: readonly db.Submission[],
    onAccepted = (_: readonly db.Message[]) => {},
  ): Promise<readonly (db.Published | db.KeyReused)[]> {
    const results = await this.#groups.add(submissions);
    const isAccepted = (index: number) => !(results[index] instanceof Error) && results[index]?.isNew;
    const accepted = submissions.flatMap(({ message }, index) => (isAccepted(index) ? [message] : []));
    for (const { runAt } of accepted) this.#rememberDue(runAt);
    if (accepted.length > 0) onAccepted(accepted);
    return results;
  }

  take(max: number, isIdle: boolean): Promise<db.Taken> {
    const before = Math.floor(this.#askedFor / TAKES_PER_LONGEST);
    this.#askedFor += max;
    const longest = Math.floor(this.#askedFor / TAKES_PER_LONGEST) - before;
    return this.#work.add({ max, isIdle, longest }) as Promise<db.Taken>;
  }

  takeCallbacks(max: number): Promise<db.Taken> {
    return this.#work.add({ max, isIdle: false, longest: 0, areCallbacks: true }) as Promise<db.Taken>;
  }

  settle(settled: readonly db.Settled[]): Promise<db.SettleResult> {
    return this.#work.add({ settled }) as Promise<db.SettleResult>;
  }

  async report(running: readonly db.Report[]): Promise<void> {
    await this.#work.add({ running });
  }

  async runNow(id: string, onDue = (_: db.TaskSubject) => {}): Promise<db.RunNow | undefined> {
    if (!isText(id)) return undefined;
    const values = [...this.#counter('operations'), id, this.#now()];
    const [found] = await this.#operate(() => this.#write<FoundState>(messages.RUN_NOW, values));
    if (found?.state === 'running') return 'running';
    if (found === undefined || found.state === 'failed') return (await this.reads.find(id)) && 'ended';
    if (found.state === 'scheduled' || found.state === 'retrying') onDue(deadLetters.subjectOf(found));
    return 'due';
  }

  async cancel(id: string): Promise<db.Cancellation | undefined> {
    if (!isText(id)) return undefined;
    return this.#cancellations.add(id);
  }

  async #cancelAll(ids: readonly string[]): Promise<(db.Cancellation | undefined)[]> {
    const values = [...this.#counter('operations'), ids];
    const found = await this.#operate(() => this.#write<FoundState>(messages.CANCEL, values));
    const states = new Map(found.map((each) => [each.id, each]));
    const others = ids.filter((id) => !states.has(id));
    const ended =
      others.length === 0
        ? []
        : await this.#reads.query<{ id: string; action: string | null }>(messages.ENDED, [others]);
    const actions = new Map(ended.map(({ id, action }) => [id, action]));
    return ids.map((id) => {
      const state = states.get(id);
      if (state !== undefined) {
        const { id: _, ...task } = deadLetters.subjectOf(state);
        if (state.state === 'running') return { outcome: 'requested', ...task };
        // A second cancellation of the batch finds nothing.
        states.delete(id);
        return { outcome: 'cancelled', ...task };
      }
      return actions.has(id) ? { outcome: 'ended', action: actionOf(actions.get(id) ?? null) } : undefined;
    });
  }

  async cancelRequests(ids: readonly string[]): Promise<readonly string[]> {
    const rows = await this.#reads.query<{ id: string }>(messages.CANCEL_REQUESTS, [ids.filter(isText)]);
    return rows.map(({ id }) => id);
  }

  onRecovered(listener: (recovery: db.Recovery) => void): void {
    this.#onRecovered = listener;
  }

  async limits(): Promise<db.StoredLimits[]> {
    const rows = await this.#reads.query<messages.LimitUseRow>(messages.LIMITS, [null, '']);
    return rows.map(({ action, source, definition: limits, running, nextStartAt }) => {
      const use = { running, nextStartAt: nextStartAt ?? undefined };
      return { action: actionOf(action) as string, limits, source, use };
    });
  }

  async setLimits(
    action: string,
    limits: db.ActionLimits | undefined,
    source: db.LimitSource,
    onSet = () => {},
  ): Promise<void> {
    const given = [actionText(action), limits === undefined ? null : source, limits ?? {}];
    const work = async (query: Query) => {
      // The change of another node may take as long.
      await query(`SET LOCAL lock_timeout = ${LONG_LIMIT_MS}`);
      await query(messages.SET_LIMITS, given);
    };
    await this.#operate(() => this.#writes.transaction(work, { timeLimitMs: LONG_LIMIT_MS }));
    this.#lookAt = 0;
    onSet();
  }

  async limitOf(action: string, limitKey?: string): Promise<db.UsedLimit> {
    const values = [actionText(action), actionText(limitKey ?? '')];
    const [row] = await this.#reads.query<messages.LimitUseRow>(messages.LIMITS, values);
    if (row === undefined) return { running: 0, nextStartAt: undefined };
    const { running, nextStartAt, definition: limits } = row;
    const { concurrency, rate } = (limitKey === undefined ? limits : limits.perKey) ?? {};
    return { concurrency, rate, running, nextStartAt: nextStartAt ?? undefined };
  }

  async isPaused(): Promise<boolean> {
    const [state] = await this.#reads.query<{ paused: boolean }>('SELECT paused FROM queue_state');
    return state?.paused === true;
  }

  async setPaused(isPaused: boolean, at?: number): Promise<void> {
    await this.#operate(() => this.#writes.query(SET_PAUSED, [isPaused, at ?? null]));
  }

  redrive(
    arrivals: readonly number[],
    onRequeued?: (tasks: readonly db.TaskSubject[]) => void,
    pace?: db.Pace,
  ): Promise<db.BulkResult> {
    const { maxLength, maxBytes } = this.#bounds;
    const from = (done: number) => (pace === undefined ? this.#now() : pace.from + done * pace.intervalMs);
    const values = (done: number) => [from(done), maxLength, maxBytes, pace?.intervalMs ?? null];
    this.#rememberDue(pace?.from);
    return this.#changeAll(arrivals, deadLetters.REDRIVE, values, onRequeued);
  }

  purge(arrivals: readonly number[]): Promise<db.BulkResult> {
    return this.#changeAll(arrivals, deadLetters.PURGE);
  }

  async saveHistory(id: number, text: string): Promise<void> {
    const save = `INSERT INTO queue_history (id, history) VALUES ($1, $2)
      ON CONFLICT (id) DO UPDATE SET history = excluded.history`;
    await this.#operate(() => this.#writes.query(save, [id, text]));
  }

  async counts(): Promise<db.QueueCounts> {
    const [row] = await this.#reads.query<CountsRow>(COUNTS);
    const { oldest, dead_bytes: _, keys: __, ...counts } = row as CountsRow;
    return { ...counts, oldest: oldest ?? undefined, evicted: this.#evicted };
  }

  deleteOldRows(limits: db.RetentionLimits): Promise<boolean> {
    return this.#retention.deleteOldRows(limits);
  }

  /**
   * Makes the running messages of an owner whose process has died wait again, or turns them into dead letters. Adds the
   * counts of the owner to those of the queue.
   *
   * @returns the tasks that were dead-lettered, because their processes died again and again
   */
  async recover(owner: string): Promise<readonly db.TaskSubject[]> {
    const failed: db.Recovery['failed'][number][] = [];
    const next = () => this.#writes.transaction((query) => this.#recoverSlice(query, owner));
    for (let slice = await this.#operate(next); slice !== undefined; slice = await this.#operate(next)) {
      failed.push(...slice.failed);
      this.#evicted += slice.evicted.length;
      this.#onRecovered(slice);
    }
    await this.#operate(() => this.#writes.query(FOLD_COUNTS, [owner]));
    return failed;
  }

  problem(): string | undefined {
    if (this.#failure !== undefined)
      this.#probing ??= this.#watch(this.#writes.probe())
        .catch(() => {})
        .finally(() => {
          this.#probing = undefined;
        });
    return this.#failure;
  }

  async close(): Promise<boolean> {
    await Promise.all([
      ...[this.#submissions, this.#groups, this.#cancellations, this.#work].map((batches) => batches.drained()),
      this.#lastOperation,
    ]);
    // Without the server, another node adds the counts when it recovers this owner.
    await this.#writes.query(FOLD_COUNTS, [this.#owner]).catch(() => {});
    await Promise.all([this.#writes.close(), this.#reads.close()]);
    return true;
  }

  async #fire(advance: string, values: readonly Value[], message: db.Message | undefined, onAccepted: () => void) {
    const work = async (query: Query) => {
      const now = this.#now();
      await query(...lockLimits(now, message && [message.action]));
      const [row] = await query<Advanced>(advance, values);
      if (message === undefined || !row?.isFired) return row;
      const submissions = [{ message, key: undefined }];
      const [room] = await query<Room>(...publish(this.#counter('operations'), submissions, now, this.#bounds));
      if (room?.ids.length !== 0) return row;
      return new QueueFull(`the queue holds ${room.length} messages, ${room.bytes} bytes`);
    };
    const isKept = (row: Advanced | QueueFull | undefined) => !(row instanceof QueueFull);
    const row = await this.#operate(() => this.#writes.transaction(work, { isKept }));
    if (row instanceof QueueFull) throw row;
    if (row?.isFired) onAccepted();
    return row;
  }

  /** Remembers why PostgreSQL could not be used. */
  async #watch<Value>(used: Promise<Value>): Promise<Value> {
    try {
      const value = await used;
      this.#failure = undefined;
      return value;
    } catch (error) {
      if (error instanceof DatabaseUnavailable) this.#failure = error.message;
      throw error;
    }
  }

  /** Returns the row of the counts that a kind of write changes. */
  #counter(lane: Lane): Counter {
    return [this.#owner, lane];
  }

  /** Runs a statement that changes messages. Returns its rows. */
  async #write<Row extends object>(text: string, values: readonly unknown[]): Promise<Row[]> {
    const [, rows] = await this.#writes.batch([lockLimits(this.#now()), [text, values]]);
    return rows as Row[];
  }

  /** Runs operations one after another, because they change the same row of the counts. */
  #operate<Value>(run: () => Promise<Value>): Promise<Value> {
    const result = this.#lastOperation.then(run);
    this.#lastOperation = result.catch(() => {});
    return this.#watch(result);
  }

  /** Writes settlements, takes messages and stores reports in one transaction and one round trip. */
  async #runWork(items: readonly Work[]): Promise<(db.SettleResult | db.Taken | undefined)[]> {
    const takes = items.filter((item) => 'max' in item);
    if (takes.length > 0 && this.#mayOwnMore) await this.#releaseLost();
    const now = this.#now();
    const settled = items.flatMap((item) => ('settled' in item ? item.settled : []));
    const rows = settled.filter((each): each is messages.SettledOf<'row'> => each.settlement.kind === 'row');
    // A second settlement of a delivery is late.
    const fenced = settled.filter(({ settlement }) => settlement.kind !== 'row').toReversed();
    const current = [...new Map(fenced.map((each) => [positionOf(each.delivery), each])).values()].sort(byArrival);
    const ended = current.filter(isEnd);
    const kept = current.filter((each) => !isEnd(each)).map((each) => changeOf(each, now, this.#owner));
    for (const { state, runAt } of kept) if (state === 'retrying') this.#rememberDue(runAt);
    // The start of a released attempt may not have been reported, and counts.
    const released = current.flatMap(({ delivery, settlement: { kind }, startedAt }) =>
      kind === 'release' && startedAt !== undefined ? { delivery, startedAt, progress: undefined } : [],
    );
    const reported = [...items.flatMap((item) => ('running' in item ? item.running : [])), ...released].sort(byArrival);

    // The next take finds out when the time of their starts has passed.
    if ([...reported, ...current].some(({ delivery }) => delivery.isRated)) this.#lookAt = 0;
    const settlements = this.#counter('settlements');
    const changed: messages.SettledRow[] = [];
    const letters: deadLetters.LetterRow[] = [];
    const taken: messages.TakeRow[][] = [];
    const steps: [statement: BoundStatement, read: (rows: never[]) => unknown][] = [[lockLimits(now), () => {}]];
    const changes = [reported, ended, kept].filter(({ length }) => length > 0);
    if (changes.length > 1) {
      const arrivals = changes.flatMap((of) => of.map(({ delivery }) => delivery.arrival));
      steps.push([[messages.LOCK_MESSAGES, [arrivals]], () => {}]);
    }
    // Before the settlements, which release the starts.
    if (reported.length > 0) steps.push([messages.report(reported), () => {}]);
    if (ended.length > 0)
      steps.push([messages.end(settlements, ended, now, this.#owner), (rows) => changed.push(...rows)]);
    if (kept.length > 0) steps.push([messages.putBack(settlements, kept, now), (rows) => changed.push(...rows)]);
    if (current.some(isDiscard)) steps.push([deadLetters.evict(settlements), (rows) => letters.push(...rows)]);
    if (takes.length > 0 && now >= Math.min(this.#nextDueAt, this.#lookAt)) {
      // Before the answer, because a message that is due earlier may be accepted meanwhile.
      this.#nextDueAt = Number.POSITIVE_INFINITY;
      this.#lookAt = now + LOOK_MS;
      const remember = ([row]: messages.StagedRow[]) => this.#rememberDue(row?.nextDueAt);
      steps.push([messages.stage(settlements, now), remember], [[messages.END_STARTS, [now]], remember]);
    }
    if (!this.#runsSuspect(current)) {
      const isSuspectsTurn = now >= this.#nextSuspectAt;
      for (const each of takes)
        steps.push([messages.take(this.#owner, each, isSuspectsTurn), (rows) => taken.push(rows)]);
    }
    if (rows.length > 0) steps.push([messages.rowsOf(rows, now, this.#owner), () => {}]);
    const statements = steps.map(([statement]) => statement);
    // Until the taken messages are in `#held`, which an error prevents.
    this.#mayOwnMore ||= takes.length > 0;
    // Not synced: at a crash of the server, a task whose settlement is lost runs again.
    const results = await this.#writes.batch(statements, { length: lengthOf(settled), isSynced: false });
    for (const [index, [, read]] of steps.entries()) read(results[index] as never[]);
    const effects = await this.#effectsOf(current, changed);
    const evicted = await deadLetters.evictAll(this.#writes.query, settlements, letters);

    for (const each of rows) effects.set(each, 'applied');
    for (const { delivery } of current) if (this.#isHeld(delivery)) this.#held.delete(delivery.arrival);
    this.#evicted += evicted.length;
    if (takes.length > 0) this.#mayOwnMore = false;
    const answers = takes.map(({ max }, index) => this.#takenOf(taken[index] ?? [], max));
    return items.map((item) => {
      if ('max' in item) return answers.shift();
      if ('running' in item) return undefined;
      const own = item.settled.map((each) => effects.get(each) ?? 'late');
      return { effects: own, evicted: item.settled.some(isDiscard) ? evicted.splice(0) : [] };
    });
  }

  /** Whether a suspect is in flight, and is not settled now. Nothing is taken beside it. */
  #runsSuspect(settled: readonly db.Settled[]): boolean {
    const arrivals = new Set(settled.map(({ delivery }) => delivery.arrival));
    return [...this.#held].some(([arrival, { isSuspect }]) => isSuspect && !arrivals.has(arrival));
  }

  /**
   * Returns the effects of settlements. A settlement that changes nothing although its delivery is held is either late, or
   * was applied before, and the answer was lost.
   */
  async #effectsOf(
    settled: readonly db.Settled[],
    changed: readonly messages.SettledRow[],
  ): Promise<Map<db.Settled, messages.Effect>> {
    const byPosition = new Map(changed.map((row): [string, messages.Effect] => [positionOf(row), row.effect]));
    const unchanged = settled.filter(({ delivery }) => !byPosition.has(positionOf(delivery)) && this.#isHeld(delivery));
    if (unchanged.length > 0) {
      for (const row of await this.#writes.query<messages.SettledRow>(...messages.applied(unchanged)))
        byPosition.set(positionOf(row), row.effect);
    }
    return new Map(settled.map((each) => [each, byPosition.get(positionOf(each.delivery)) ?? 'late']));
  }

  #takenOf(rows: readonly messages.TakeRow[], max: number): db.Taken {
    const deliveries = messages.deliveriesOf(rows);
    // A statement whose time limit passed may still have been executed.
    if ((rows[0]?.owned ?? 0) > this.#held.size) this.#mayOwnMore = true;
    for (const delivery of deliveries) {
      this.#held.set(delivery.arrival, delivery);
      if (delivery.isSuspect) this.#nextSuspectAt = this.#now() + SUSPECT_INTERVAL_MS;
    }
    const isLater = deliveries.length < max && this.#nextDueAt < Number.POSITIVE_INFINITY;
    return { deliveries, nextRunAt: isLater ? this.#nextDueAt : undefined };
  }

  #rememberDue(dueAt: number | null | undefined): void {
    this.#nextDueAt = Math.min(this.#nextDueAt, dueAt ?? Number.POSITIVE_INFINITY);
  }

  #isHeld({ arrival, delivery }: db.Delivery): boolean {
    return this.#held.get(arrival)?.delivery === delivery;
  }

  /** Releases the messages that this node owns and does not hold. */
  async #releaseLost(): Promise<void> {
    const held = [...this.#held.keys()];
    const lost = await this.#writes.query<LostMessage>(messages.LOST_ANSWER, [this.#owner, held]);
    const released = lost.map((delivery) => ({ delivery, state: 'waiting' as const }));
    const now = this.#now();
    await this.#writes.batch([lockLimits(now), messages.putBack(this.#counter('settlements'), released, now)]);
    this.#mayOwnMore = false;
  }

  /** Returns undefined if the owner has no messages. */
  async #recoverSlice(query: Query, owner: string): Promise<db.Recovery | undefined> {
    const now = this.#now();
    await query(...lockLimits(now));
    const lost = await query<LostMessage & deadLetters.LetterRow>(messages.LOST_MESSAGES, [owner, RECOVERED_SLICE]);
    if (lost.length === 0) return undefined;
    const changes = lost.map((row) => deathOf(row, now, owner));
    const operations = this.#counter('operations');
    const changed = await query<messages.SettledRow>(...messages.putBack(operations, changes, now));
    const evicted = await deadLetters.evictAll(query, operations);
    const effects = new Map(changed.map(({ arrival, effect }) => [arrival, effect]));
    const failed = lost.flatMap((row, index) => {
      const { state, attempts = 0, reason = '' } = changes[index] as MessageChange;
      const isFailed = state === 'failed' && effects.get(row.arrival) === 'applied';
      return isFailed ? [{ ...deadLetters.subjectOf(row), attempts, reason }] : [];
    });
    const cancelled = lost.filter(({ arrival }) => effects.get(arrival) === 'cancelled').map(deadLetters.subjectOf);
    return { failed, cancelled, evicted };
  }

  /** Changes dead letters by a statement with further values, which may depend on the number of those changed before. */
  async #changeAll(
    selected: readonly number[],
    text: string,
    values: (done: number) => (number | null)[] = () => [],
    onChanged?: (tasks: readonly db.TaskSubject[]) => void,
  ): Promise<db.BulkResult> {
    let done = 0;
    const change = async (arrivals: readonly number[]) => {
      const all = [...this.#counter('operations'), arrivals, ...values(done)];
      const slice = deadLetters.readSlice(await this.#operate(() => this.#write(text, all)));
      done += slice.done.length;
      return slice;
    };
    return changeInSlices(selected, change, onChanged);
  }
}

const isDiscard = ({ settlement }: db.Settled) => settlement.kind === 'discard';
const isEnd = ({ settlement: { kind } }: db.Settled) => kind === 'complete' || kind === 'ack' || kind === 'cancel';

function positionOf({ arrival, delivery }: Pick<db.Delivery, 'arrival' | 'delivery'>): string {
  return `${arrival} ${delivery}`;
}

function byArrival(one: { delivery: db.Delivery }, other: { delivery: db.Delivery }): number {
  return one.delivery.arrival - other.delivery.arrival;
}

function lengthOf(settled: readonly db.Settled[]): number {
  return settled.reduce((sum, { settlement }) => sum + ('result' in settlement ? settlement.result.length : 0), 0);
}

import {
  type Awaitable,
  type Delivery,
  type IdempotencyKey,
  KEY_LIFETIME_MS,
  KeyReused,
  type Located,
  type Message,
  NORMAL_PRIORITY,
  type Published,
  type QueueCounts,
  QueueFull,
  type Settled,
  type SettleResult,
  type StoredMessage,
  SUSPECT_DEATHS,
  type Taken,
  type TaskStore,
  TURN_OF_LONGEST,
} from '../../db/task-store.ts';
import type { QueueEvent } from '../../main/tasks/task-events.ts';
import type { Submission } from './clients.ts';
import { type RunRecord, settlementProblem } from './settlements.ts';

const ACCEPTED = 'A task that was answered with 202 ends exactly once.';
const ENDS_ONCE = 'No task has two rows, or both a row and a dead letter.';
const OUTPUT = 'The row of a task has the output of its handler.';
const ATTEMPTS = 'A task is retried up to four times, and no attempt is charged for the death of a process.';
const CANCELLED = 'A cancelled task has either a row or a cancellation, never both.';
const SUSPECT = 'A suspect runs alone.';
const ONE_TASK = 'An idempotency key names one task for 24 hours.';
const PAUSED = 'While the queue is paused, no task is given to a thread.';
const EVENTS = 'Events report the states of a task in order, each after its commit.';
const COUNTS = 'Counts and lists derive from the tables.';
const TIMELY = 'No task starts before its time.';
const FIRST = 'A higher priority is taken first, except for one message of ten.';
const REST = 'After the faults, processing resumes automatically, and each task ends.';

/** Time for which another pause or resumption may still take effect. */
const UNCERTAIN_MS = 10_000;

export type State = 'waiting' | 'running' | 'failed' | 'completed' | 'cancelled' | 'purged';

/** Answers to clients about a task. */
export type Promised = 'accepted' | 'cancelled' | 'cancelling' | 'redriven' | 'purged';

type Effect = SettleResult['effects'][number];

/** A delivery that a process was given. */
interface Attempt {
  delivery: Delivery;
  record: RunRecord;
  /** Its settlement. Undefined without an answer. */
  settled: { kind: string; effect: Effect } | undefined;
}

export interface KnownTask {
  readonly id: string;
  readonly name: string;
  readonly key: IdempotencyKey | undefined;
  readonly priority: number;
  /** When the task is due. Undefined if it was run before its time. */
  dueAt: number | undefined;
  /** When the key was stored: number among all keys, time, and era between losses of keys. */
  keyed: { number: number; at: number; era: number } | undefined;
  /** State that events tell. */
  state: State;
  reason: string | undefined;
  /** Answer to the submission. */
  answer: 'accepted' | 'refused' | undefined;
  /** Number of the answer after which no take may return the task. */
  endedAt: number | undefined;
  /** Whether a client has received an answer that reports the end. */
  isEndTold: boolean;
  isCancelRequested: boolean;
  /** Whether a client has received the answer that a running attempt is the last. */
  isCancelTold: boolean;
  /** Whether a handler has acked, so that the task may have neither a row nor a message. */
  hasAcked: boolean;
  mayHaveFailed: boolean;
  isInFlight: boolean;
  /** Number of process deaths since the last failed attempt. NaN if unknown. */
  deaths: number;
  readonly outputs: Set<string>;
  readonly attempts: Map<number, Attempt>;
  lastEvent: QueueEvent['event'] | 'none';
  /** Number of events of each kind. */
  readonly events: Map<string, number>;
}

/** Contents of the tables at one moment. */
export interface Tables {
  rows: readonly { id: string; result: string }[];
  messages: readonly Pick<StoredMessage, 'id' | 'state'>[];
}

/** Report of a run. */
export interface Journal {
  /** Records a line of the run's log. */
  note(line: string): void;
  /** Records that a rule did not hold. The run ends after the present step. */
  broken(rule: string, detail: string): void;
}

export interface HistoryOptions {
  journal: Journal;
  now: () => number;
  submissionOf: (id: string) => Submission;
  maxAttempts: (id: string) => number;
  maxKeys: number;
  /** Whether retention keeps all rows. */
  keepsRows: boolean;
}

/**
 * Record of all answers, deliveries, settlements and events of the tasks, and the guarantees that follow from the record.
 * Most guarantees hold for every store. If one process has the store alone, the record has the order of the commits, so
 * more can be checked.
 */
export class History {
  readonly tasks = new Map<string, KnownTask>();
  readonly #options: HistoryOptions;
  /** Store of the only process. */
  #alone: TaskStore | undefined;
  #answers = 0;
  #keys = 0;
  #era = 0;
  /** Number of redrives that were requested. Each may have changed any dead letter, and may still do so. */
  #redrives = 0;
  /** Number of requests to run a task before its time. */
  #runs = 0;
  /** Numbers of messages taken by the only process: all, and those with others of a higher priority behind them. */
  #taken = 0;
  #overtaking = 0;
  #hasPurged = false;
  /** The pause that has certainly taken effect. */
  #pause: object | undefined;
  #pauseRequests = 0;
  #pendingPauses = 0;
  #uncertainUntil = 0;

  constructor(options: HistoryOptions) {
    this.#options = options;
  }

  in(...states: State[]): KnownTask[] {
    return [...this.tasks.values()].filter(({ state }) => states.includes(state));
  }

  /** Records that a client got this answer. */
  promise(id: string, what: Promised): void {
    const task = this.tasks.get(id);
    if (task === undefined) return;
    if (what === 'accepted') task.answer = 'accepted';
    if (what === 'cancelling') task.isCancelTold = task.state === 'running';
    if (what !== 'cancelled' && what !== 'purged') return;
    this.#end(task);
    task.isEndTold = true;
  }

  /**
   * Follows the calls of a process until its death.
   *
   * @param isAlone whether no other process uses the store
   */
  observe(store: TaskStore, process: { isDead: boolean }, isAlone: boolean): void {
    const { publish, publishAll, take, settle, cancel, runNow, redrive, purge, setPaused } = store;
    if (isAlone) this.#alone = store;
    store.publish = async (message, key, onAccepted = () => {}) => {
      const task = this.#add(message, key);
      const accept = () => {
        if (!process.isDead) this.#onAccepted(task);
        onAccepted();
      };
      const published = await publish.call(store, message, key, accept).catch((error: Error) => {
        if (error instanceof QueueFull || error instanceof KeyReused) task.answer = 'refused';
        throw error;
      });
      if (!process.isDead) this.#onPublished(task, published);
      return published;
    };
    store.publishAll = async (submissions, onAccepted = () => {}) => {
      const tasks = submissions.map(({ message, key }) => this.#add(message, key));
      const accept = (messages: readonly Message[]) => {
        const accepted = messages.flatMap(({ id }) => this.tasks.get(id) ?? []);
        if (!process.isDead) for (const task of accepted) this.#onAccepted(task);
        onAccepted(messages);
      };
      const refuse = () => {
        for (const task of tasks) task.answer = 'refused';
      };
      const results = await publishAll.call(store, submissions, accept).catch((error: Error) => {
        if (error instanceof QueueFull) refuse();
        throw error;
      });
      if (process.isDead) return results;
      if (results.some((each) => each instanceof KeyReused)) refuse();
      else
        for (const [index, task] of tasks.entries()) {
          if (!(results[index] instanceof Error)) this.#onPublished(task, results[index] as Published);
        }
      return results;
    };
    store.take = (max, isIdle) => {
      const [pause, answers] = [this.#pause, this.#answers];
      const result = take.call(store, max, isIdle);
      if (isAlone && !(result instanceof Promise)) this.#checkPriorities(result, store);
      return after(result, (taken) => {
        if (process.isDead) return taken;
        for (const delivery of taken.deliveries) this.#onTaken(delivery, answers, isAlone);
        const [first] = taken.deliveries;
        const isPaused = pause !== undefined && pause === this.#pause;
        if (isPaused && first !== undefined) this.#broken(PAUSED, `${this.#name(first.id)} was taken`);
        return taken;
      });
    };
    store.settle = (settled) => {
      const end = (result: SettleResult) => {
        if (process.isDead) return result;
        for (const [index, each] of settled.entries()) this.#onSettled(each, result.effects[index] as Effect);
        return result;
      };
      return after(settle.call(store, settled), end);
    };
    store.cancel = (id) => {
      const task = this.tasks.get(id);
      if (task !== undefined) task.isCancelRequested = true;
      return cancel.call(store, id);
    };
    store.runNow = (id, onDue) => {
      this.#runs += 1;
      const task = this.tasks.get(id);
      if (task !== undefined) task.dueAt = undefined;
      return runNow.call(store, id, onDue);
    };
    store.redrive = (selection, onRequeued) => {
      this.#redrives += 1;
      return redrive.call(store, selection, onRequeued);
    };
    store.purge = (selection) => {
      this.#hasPurged = true;
      return purge.call(store, selection);
    };
    store.setPaused = async (isPaused) => {
      this.#pause = undefined;
      const request = ++this.#pauseRequests;
      const isFirst = this.#pendingPauses++ === 0;
      let isCertain = false;
      try {
        await setPaused.call(store, isPaused);
        isCertain = isFirst && request === this.#pauseRequests && !process.isDead;
        if (isPaused && isCertain && this.#options.now() >= this.#uncertainUntil) this.#pause = {};
      } finally {
        this.#pendingPauses -= 1;
        if (!isCertain) this.#uncertainUntil = this.#options.now() + UNCERTAIN_MS;
      }
    };
  }

  #onAccepted(task: KnownTask): void {
    if (task.key !== undefined) task.keyed = { number: this.#keys++, at: this.#options.now(), era: this.#era };
  }

  #onPublished(task: KnownTask, { id, isNew }: Published): void {
    if (!isNew) task.answer = 'refused';
    const named = this.tasks.get(id)?.key;
    const isSame = named?.key === task.key?.key && named?.fingerprint === task.key?.fingerprint;
    if (!isSame) this.#broken(ONE_TASK, `${task.name} was answered with ${this.#name(id)}`);
  }

  /** Called when the only process has opened the store. */
  onOpen(isPaused: boolean): void {
    if (this.#pause !== undefined && !isPaused) this.#broken(PAUSED, 'the pause has ended with the process');
    this.#pendingPauses = 0;
  }

  /** Called when a pool is given a delivery. */
  begin(delivery: Delivery): RunRecord {
    const record: RunRecord = { early: undefined, outcome: undefined };
    const task = this.tasks.get(delivery.id);
    if (task?.attempts.has(delivery.delivery) !== false) {
      this.#broken(ENDS_ONCE, `delivery ${delivery.delivery} of ${this.#name(delivery.id)} is given twice`);
    }
    task?.attempts.set(delivery.delivery, { delivery, record, settled: undefined });
    return record;
  }

  /** Called when a thread gets a delivery. */
  onAssign({ id }: Delivery): void {
    const isPaused = this.#alone !== undefined && this.#pause !== undefined;
    if (isPaused) this.#broken(PAUSED, `${this.#name(id)} was given to a thread`);
  }

  /** Called when a handler starts. @param busy number of handlers that run in this process */
  onStart({ id, isSuspect }: Delivery, busy: number): void {
    if (isSuspect && busy > 1) this.#broken(SUSPECT, `${this.#name(id)} starts beside ${busy - 1} others`);
  }

  /** Called with the events of a process. */
  onEvent(event: QueueEvent): void {
    const task = 'id' in event ? this.tasks.get(event.id) : undefined;
    if (task === undefined) return;
    const name = event.event;
    this.#options.journal.note(`    ${task.name} ${name}`);
    const count = (task.events.get(name) ?? 0) + 1;
    task.events.set(name, count);
    task.state = STATES[name] ?? task.state;
    if (event.event === 'failed') task.reason = event.reason;
    if (name !== 'progress') task.isCancelTold = false;
    if (name === 'accepted') task.deaths = 0;
    const runs = name === 'accepted' ? this.#runs : 0;
    const most = MOST.has(name) ? 1 : name === 'accepted' || name === 'failed' ? 1 + this.#redrives + runs : Infinity;
    const isBoth = task.events.has('completed') && task.events.has('cancelled');
    if (count > most || isBoth) this.#broken(EVENTS, `${task.name}: ${name} beside ${[...task.events.keys()]}`);
    if (this.#alone !== undefined) this.#checkEvent(task, name, this.#alone);
    task.lastEvent = name;
  }

  /** Called when the only process has ended. @param countsDeaths whether its messages in flight stay in the tables */
  processEnded(countsDeaths: boolean): void {
    for (const task of this.tasks.values()) {
      if (task.isInFlight && countsDeaths) task.deaths += 1;
      task.mayHaveFailed ||= task.isInFlight;
      task.isInFlight = false;
      task.lastEvent = 'none';
    }
  }

  /** Called when a queue in memory is lost. */
  queueLost(): void {
    this.#era += 1;
    this.#pause = undefined;
    for (const task of this.tasks.values()) if (task.answer === 'accepted') task.answer = undefined;
  }

  /** Called when all changes may be lost that no answer reports. A queue in memory may be back as it was saved. */
  powerLost(isDurable: boolean): void {
    this.#era += 1;
    for (const task of this.tasks.values()) {
      task.isEndTold &&= isDurable;
      task.isCancelTold = false;
      task.deaths = Number.NaN;
      task.attempts.clear();
      task.events.clear();
      if (!task.isEndTold) task.endedAt = undefined;
      if (!task.isEndTold && STATES_AT_REST.has(task.state)) task.state = 'waiting';
    }
  }

  /** Compares the tables with the record. */
  audit({ rows, messages }: Tables): void {
    const waiting = new Set(messages.map(({ id }) => id));
    const results = new Map(rows.map(({ id, result }) => [id, result]));
    for (const [id, result] of results) {
      if (waiting.has(id)) this.#broken(ENDS_ONCE, `${this.#name(id)} has a row and a message`);
      const outputs = this.tasks.get(id)?.outputs ?? [];
      const isKnown = [...outputs].some((output) => output.startsWith(result));
      if (!isKnown) this.#broken(OUTPUT, `no run of ${this.#name(id)} returned ${result}`);
    }
    for (const id of waiting) if (!this.tasks.has(id)) this.#broken(ENDS_ONCE, `${id} was never submitted`);
    const ofKeys = new Map<string, KnownTask>();
    for (const task of this.tasks.values()) {
      const [hasRow, hasMessage] = [results.has(task.id), waiting.has(task.id)];
      const isStored = hasRow || hasMessage || task.attempts.size > 0;
      if (isStored && task.answer === 'refused') this.#broken(ACCEPTED, `${task.name} was refused and is stored`);
      if (isStored && task.key !== undefined) this.#checkKey(task, ofKeys);
      const isEnded = task.endedAt !== undefined;
      if (isEnded && hasMessage) this.#broken(ENDS_ONCE, `${task.name} has ended, and has a message`);
      const isDone = [...task.attempts.values()].some(({ settled }) => {
        return settled?.effect === 'applied' && (settled.kind === 'complete' || settled.kind === 'row');
      });
      const isMissing = isDone && !hasRow && this.#options.keepsRows;
      if (isMissing) this.#broken(ENDS_ONCE, `${task.name} was completed and has no row`);
      const isCancelled = task.events.has('cancelled') || (task.isEndTold && task.attempts.size === 0);
      if (isCancelled && hasRow) this.#broken(CANCELLED, `${task.name} is cancelled and has a row`);
      this.#checkAttempts(task);
    }
  }

  /** Compares the counts with the tables. */
  auditCounts(counts: QueueCounts, messages: Tables['messages']): void {
    const { accepted, completed, dropped, cancelled, waiting, scheduled, retrying, inFlight, dead } = counts;
    const unfinished = { waiting, scheduled, retrying, running: inFlight, failed: dead };
    const of = (name: string) => messages.filter(({ state }) => state === name).length;
    const sum = Object.values(unfinished).reduce((total, count) => total + count);
    const isSum = accepted === completed + dropped + cancelled + sum;
    const isEqual = Object.entries(unfinished).every(([state, count]) => count === of(state));
    const isEmpty = messages.length > dead || counts.bytes === 0;
    if (!isSum || !isEqual || !isEmpty)
      this.#broken(COUNTS, `${JSON.stringify(counts)} of ${messages.length} messages`);
  }

  /** Checks the tables after everything has come to rest. */
  auditRest({ rows, messages }: Tables, unanswered: readonly string[]): void {
    if (unanswered.length > 0) this.#broken(REST, `no answer to ${unanswered.join(', ')}`);
    const stored = new Set([...rows, ...messages].map(({ id }) => id));
    for (const { id, state } of messages) if (state !== 'failed') this.#broken(REST, `${this.#name(id)} is ${state}`);
    for (const task of this.tasks.values()) {
      if (task.answer !== 'accepted' || stored.has(task.id) || task.isCancelRequested || task.hasAcked) continue;
      const hasDied = [...task.attempts.values()].some(({ record }) => record.outcome === undefined);
      const isPurged = this.#hasPurged && (task.mayHaveFailed || hasDied);
      const isDeleted = !this.#options.keepsRows && task.outputs.size > 0;
      if (!isPurged && !isDeleted) this.#broken(ACCEPTED, `${task.name} has neither a row nor a dead letter`);
    }
  }

  #add({ id, priority = NORMAL_PRIORITY, runAt: dueAt }: Message, key: IdempotencyKey | undefined): KnownTask {
    const none = { keyed: undefined, reason: undefined, answer: undefined, endedAt: undefined };
    const no = {
      isEndTold: false,
      isCancelRequested: false,
      isCancelTold: false,
      hasAcked: false,
      mayHaveFailed: false,
      isInFlight: false,
    };
    const seen = { deaths: 0, outputs: new Set<string>(), attempts: new Map(), events: new Map() };
    const name = this.#options.submissionOf(id).name;
    const task: KnownTask = {
      id,
      name,
      key,
      priority,
      dueAt,
      state: 'waiting',
      lastEvent: 'none',
      ...none,
      ...no,
      ...seen,
    };
    this.tasks.set(id, task);
    return task;
  }

  #end(task: KnownTask): void {
    this.#answers += 1;
    task.endedAt ??= this.#answers;
  }

  #onTaken({ id, attempt, isSuspect }: Delivery, answers: number, isAlone: boolean): void {
    const task = this.tasks.get(id);
    if (task === undefined) {
      this.#broken(ENDS_ONCE, `${id} was never submitted`);
      return;
    }
    const hasEnded = task.endedAt !== undefined && task.endedAt <= answers;
    if (hasEnded) this.#broken(ENDS_ONCE, `${task.name} was taken after its end`);
    const { dueAt = 0 } = task;
    const earlyMs = dueAt - this.#options.now();
    if (earlyMs > 0) this.#broken(TIMELY, `${task.name} was taken ${earlyMs} ms before its time`);
    const tooMany = attempt > this.#options.maxAttempts(id) || task.deaths > SUSPECT_DEATHS;
    const isWrong = isAlone && !Number.isNaN(task.deaths) && isSuspect !== task.deaths >= SUSPECT_DEATHS;
    const detail = `${task.name} was taken for attempt ${attempt}, after ${task.deaths} deaths, suspect: ${isSuspect}`;
    if (tooMany || isWrong) this.#broken(ATTEMPTS, detail);
    task.isInFlight = isAlone;
  }

  /** Called at once after a take. */
  #checkPriorities({ deliveries }: Taken, store: TaskStore): void {
    if (deliveries.length === 0 || deliveries.some(({ isSuspect }) => isSuspect)) return;
    const [first] = store.locate({ state: 'waiting' }, 1) as Located[];
    const task = this.tasks.get(first?.id ?? '');
    // A suspect waits for its turn. That it is one is known only while the deaths are.
    const isOrdinary = task !== undefined && task.deaths < SUSPECT_DEATHS;
    const priorityOf = ({ id }: Delivery) => this.tasks.get(id)?.priority ?? 1;
    this.#taken += deliveries.length;
    this.#overtaking += isOrdinary ? deliveries.filter((each) => priorityOf(each) > task.priority).length : 0;
    if (this.#overtaking > this.#taken / TURN_OF_LONGEST + 1)
      this.#broken(FIRST, `${this.#overtaking} of ${this.#taken} were taken before others of a higher priority`);
  }

  #onSettled(settled: Settled, effect: Effect): void {
    const { delivery, settlement } = settled;
    const task = this.tasks.get(delivery.id);
    if (task === undefined) return;
    const attempt = task.attempts.get(delivery.delivery);
    const problem = settlementProblem(settled, attempt?.record, this.#options.maxAttempts(task.id));
    if (problem !== undefined) this.#broken(ATTEMPTS, `${task.name}, attempt ${delivery.attempt}: ${problem}`);
    if (attempt !== undefined) attempt.settled = { kind: settlement.kind, effect };
    if (effect === 'late') return;
    task.isInFlight = false;
    if (settlement.kind === 'retry') task.deaths = 0;
    const isEnd = settlement.kind === 'complete' || settlement.kind === 'ack' || settlement.kind === 'cancel';
    if (effect === 'cancelled' || isEnd) this.#end(task);
    const isAgain = settlement.kind === 'retry' || settlement.kind === 'release';
    const isIgnored = this.#alone !== undefined && isAgain && effect === 'applied' && task.isCancelTold;
    if (isIgnored) this.#broken(CANCELLED, `${task.name} waits again, although its cancellation was answered`);
    const isUnasked = effect === 'cancelled' && !task.isCancelRequested;
    if (isUnasked) this.#broken(CANCELLED, `${task.name} was cancelled without a request`);
  }

  onAcked({ id }: Delivery): void {
    const task = this.tasks.get(id);
    if (task !== undefined) task.hasAcked = true;
  }

  /** Records how a handler has ended. */
  onEnd({ id }: Delivery, { early, outcome }: RunRecord): void {
    const task = this.tasks.get(id);
    if (task === undefined) return;
    if (early === 'nack' || outcome?.ended !== 'returned') task.mayHaveFailed = true;
    if (outcome?.ended === 'returned' && early !== 'nack') task.outputs.add(`{"output":${outcome.output}}`);
  }

  /** An attempt is charged only if its handler failed, and always if its retry had an effect. */
  #checkAttempts({ name, attempts }: KnownTask): void {
    if (attempts.size < 2) return;
    const sorted = [...attempts.values()].sort((one, other) => one.delivery.delivery - other.delivery.delivery);
    for (const [index, { delivery }] of sorted.entries()) {
      const former = sorted[index - 1];
      if (former === undefined || (this.#redrives > 0 && delivery.attempt === 1)) continue;
      const { record, settled } = former;
      const { ended } = record.outcome ?? {};
      const hasFailed = ended === 'raised' || ended === 'crashed' || record.early === 'nack';
      const isCharged = settled?.effect === 'applied' && settled.kind === 'retry';
      const charged = delivery.attempt - former.delivery.attempt;
      if (charged < Number(isCharged) || charged > Number(hasFailed)) {
        const detail = `attempt ${delivery.attempt} follows ${former.delivery.attempt}`;
        this.#broken(ATTEMPTS, `${name}: ${detail}, which ended with ${ended}, ${settled?.kind} ${settled?.effect}`);
      }
    }
  }

  /** @param ofKeys the last task of each key */
  #checkKey(task: KnownTask, ofKeys: Map<string, KnownTask>): void {
    const key = task.key?.key ?? '';
    const other = ofKeys.get(key);
    ofKeys.set(key, task);
    if (other === undefined) return;
    const [now, before] = [task.keyed, other.keyed];
    const isKnown = now !== undefined && before !== undefined;
    const isForgotten =
      isKnown &&
      (now.era !== before.era ||
        Math.abs(now.number - before.number) >= this.#options.maxKeys ||
        Math.abs(now.at - before.at) >= KEY_LIFETIME_MS);
    const isUncertain = !isKnown && this.#era > 0;
    if (!isForgotten && !isUncertain) this.#broken(ONE_TASK, `key ${key} names ${other.name} and ${task.name}`);
  }

  /** Checks an event against the one before it, and against the tables, in which it is committed. */
  #checkEvent(task: KnownTask, name: QueueEvent['event'], store: TaskStore): void {
    const { lastEvent } = task;
    if (!NEXT[lastEvent]?.includes(name)) this.#broken(EVENTS, `'${name}' of ${task.name} follows '${lastEvent}'`);
    const [message] = store.read([task.id], 1) as StoredMessage[];
    const state = message?.state;
    const isTrue =
      // One commit may contain a cancellation as well.
      name === 'accepted'
        ? state === 'waiting' || state === 'running' || (state === undefined && task.isCancelRequested)
        : name === 'scheduled'
          ? state === 'scheduled' || state === 'waiting' || (state === undefined && task.isCancelRequested)
          : name === 'started' || name === 'progress'
            ? state === 'running'
            : name === 'retrying'
              ? state === 'retrying' || state === 'waiting' || state === 'running'
              : state === (name === 'failed' ? 'failed' : undefined);
    if (!isTrue) this.#broken(EVENTS, `'${name}' of ${task.name}, which is ${state}`);
  }

  #broken(rule: string, detail: string): void {
    this.#options.journal.broken(rule, detail);
  }

  #name(id: string): string {
    return this.tasks.get(id)?.name ?? id;
  }
}

type EventName = QueueEvent['event'];

const STATES: Partial<Record<EventName, State>> = {
  ...({
    accepted: 'waiting',
    scheduled: 'waiting',
    started: 'running',
    retrying: 'waiting',
    failed: 'failed',
  } as const),
  ...({ completed: 'completed', cancelled: 'cancelled', purged: 'purged' } as const),
};
const STATES_AT_REST: ReadonlySet<State> = new Set(['failed', 'completed', 'cancelled', 'purged']);

/** Events that a task has once. */
const MOST: ReadonlySet<EventName> = new Set(['scheduled', 'completed', 'cancelled', 'purged']);

const RUNNING: readonly EventName[] = ['started', 'progress', 'completed', 'retrying', 'failed', 'cancelled'];

/** Events that may follow an event of the same task in one process. */
const NEXT: Partial<Record<EventName | 'none', readonly EventName[]>> = {
  // The task was accepted by an earlier process.
  none: ['started', 'cancelled', 'accepted', 'scheduled', 'purged'],
  accepted: ['started', 'cancelled'],
  scheduled: ['accepted', 'started', 'cancelled'],
  // A run that is released has no event.
  started: RUNNING,
  progress: RUNNING,
  retrying: ['accepted', 'started', 'cancelled'],
  failed: ['accepted', 'purged'],
};

/** Calls `then` with a value, at once if it is no promise. */
function after<T>(value: Awaitable<T>, then: (value: T) => T): Awaitable<T> {
  return value instanceof Promise ? value.then(then) : then(value);
}

import type { Firing } from '../../db/schedules.ts';
import {
  type Awaitable,
  type Delivery,
  type IdempotencyKey,
  KEY_LIFETIME_MS,
  KeyReused,
  type Message,
  NORMAL_PRIORITY,
  type Published,
  type QueueCounts,
  QueueFull,
  type Settled,
  type SettleResult,
  type StoredMessage,
  type Submission as StoreSubmission,
  SUSPECT_DEATHS,
  type TaskStore,
  type TaskSubject,
} from '../../db/task-store.ts';
import { retryPolicy } from '../../main/tasks/dispatch/retry-policy.ts';
import type { AttemptListener, Outcome } from '../../main/tasks/pool/run.ts';
import type { QueueEvent } from '../../main/tasks/task-events.ts';
import type { Acknowledgement } from '../../workers/tasks/messages.ts';
import type { Submission } from './clients.ts';
import { Known } from './known.ts';
import { limitUse } from './limits.ts';
import { actions, type Process } from './process.ts';
import { scheduleOracle } from './schedules.ts';
import { turnOracle } from './turns.ts';
import type { World } from './world.ts';

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
const ONE_TIME = 'Each time of a schedule makes one task.';
const NO_OVERLAP = 'With overlap: skip, a schedule has one unfinished task.';
const REST = 'After the faults, processing resumes automatically, and each task ends.';

export type State = 'waiting' | 'running' | 'failed' | 'completed' | 'cancelled' | 'purged';

/** Answers to clients about a task. */
export type Promised = 'accepted' | 'cancelled' | 'requested' | 'purged';

type Effect = SettleResult['effects'][number];

/** A delivery that a handler was given. */
interface Attempt {
  delivery: Delivery;
  /** How the handler settled its task before it ended. */
  early?: Acknowledgement;
  outcome?: Outcome;
  /** Its settlement. Undefined without an answer. */
  settled?: { kind: string; effect: Effect };
}

export type KnownTask = ReturnType<typeof newTask>;

/** Returns what is known of a task when it is submitted. @param era number of losses of the queue before */
function newTask(message: Message, name: string, key: IdempotencyKey | undefined, era: number) {
  return {
    ...{ id: message.id, name, message, key, era, priority: message.priority ?? NORMAL_PRIORITY },
    /** The advance of a schedule that makes the task. */
    firing: undefined as Firing | undefined,
    /** When the task is due. Undefined if it was run before its time. */
    dueAt: message.runAt,
    /** When the key was stored: number among all keys, time, and era between losses of keys. */
    keyed: undefined as { number: number; at: number; era: number } | undefined,
    /** State that events tell. */
    state: 'waiting' as State,
    /** Reason of the last failure. */
    reason: undefined as string | undefined,
    /** Answer to the submission. */
    answer: undefined as 'accepted' | 'refused' | undefined,
    /** Number of the answer after which no take may return the task. */
    endedAt: undefined as number | undefined,
    /** Whether a client has received an answer that reports the end. */
    isEndTold: false,
    isCancelRequested: false,
    /** Whether a client has received the answer that a running attempt is the last. */
    isCancelTold: false,
    /** Whether a handler has acked, so that the task may have neither a row nor a message. */
    hasAcked: false,
    mayHaveFailed: false,
    isInFlight: false,
    /** Number of process deaths since the last failed attempt. NaN if unknown. */
    deaths: 0,
    outputs: new Set<string>(),
    /** Deliveries to handlers, by number. */
    attempts: new Map<number, Attempt>(),
    lastEvent: 'none' as EventName | 'none',
    /** The event of the end. */
    end: undefined as EventName | undefined,
  };
}

/** Contents of the tables at one moment. */
export interface Tables {
  rows: readonly { id: string; result: string }[];
  messages: readonly Pick<StoredMessage, 'id' | 'state'>[];
}

/** A store of one process, or of one node of several, which recovers the messages of others. */
export interface ObservedStore extends TaskStore {
  recover?(owner: string): Promise<readonly TaskSubject[]>;
}

/**
 * Record of all answers, deliveries, settlements and events of the tasks, and the guarantees that follow from the record.
 * Most guarantees hold for every store. If one process has the store alone, the record has the order of the commits, so
 * more can be checked.
 */
export class History {
  readonly tasks = new Map<string, KnownTask>();
  /** Submissions by the task ids that the service gave them. */
  readonly submissions = new Map<string, Submission>();
  /** Whether a redrive was requested, which may have changed any dead letter, and may still do so. */
  hasRedriven = false;
  /** Whether a purge was requested. */
  hasPurged = false;
  readonly #world: World;
  /** Store of the only process. */
  #alone: TaskStore | undefined;
  #answers = 0;
  #keys = 0;
  #era = 0;
  readonly #limits: ReturnType<typeof limitUse>;
  readonly #schedules: ReturnType<typeof scheduleOracle>;
  readonly #turns: ReturnType<typeof turnOracle>;
  readonly #pause: Known<boolean>;

  constructor(world: World) {
    this.#world = world;
    this.#limits = limitUse(world);
    this.#pause = new Known(world);
    this.#turns = turnOracle(world, this.tasks);
    this.#schedules = scheduleOracle(world, this);
  }

  /** Whether the queue survives the death of its only process. */
  get #isDurable(): boolean {
    return this.#world.setting.driver === 'sqlite';
  }

  submissionOf(id: string): Submission {
    return this.submissions.get(id) ?? UNKNOWN;
  }

  /** The pause that has certainly taken effect. */
  get #paused(): object | undefined {
    return this.#pause.value?.is ? this.#pause.value : undefined;
  }

  in(...states: State[]): KnownTask[] {
    return [...this.tasks.values()].filter(({ state }) => states.includes(state));
  }

  /** Returns the tasks of a schedule that have not ended. */
  unfinishedOf(schedule: string): KnownTask[] {
    return this.in('waiting', 'running').filter(
      ({ message, answer }) => message.schedule === schedule && answer !== 'refused',
    );
  }

  /** Returns accepted tasks that no handler has had. */
  untouched(): KnownTask[] {
    const isUntouched = ({ answer, era, attempts, isCancelRequested }: KnownTask) =>
      answer === 'accepted' && era === this.#era && attempts.size === 0 && !isCancelRequested;
    return this.in('waiting').filter(isUntouched);
  }

  /** Records that a client got this answer. */
  promise(id: string, what: Promised): void {
    const task = this.tasks.get(id);
    if (task === undefined) return;
    if (what === 'accepted') task.answer = 'accepted';
    if (what === 'requested') task.isCancelTold = task.state === 'running';
    if (what !== 'cancelled' && what !== 'purged') return;
    this.#end(task);
    task.isEndTold = true;
  }

  /** Follows the calls of a process until its death. */
  observe(store: ObservedStore, process: Process): void {
    const isAlone = !store.isShared;
    const { publish, publishAll, take, settle, cancel, setLimits, setPaused, recover } = store;
    if (isAlone) this.#alone = store;
    this.#schedules.observe(store.schedules, process, isAlone);
    if (recover !== undefined)
      store.recover = async (owner) => {
        this.#limits.gone(owner, true);
        return await recover.call(store, owner);
      };
    const publishing = async (
      submissions: readonly StoreSubmission[],
      send: () => Promise<readonly (Published | KeyReused)[]>,
    ) => {
      const tasks = submissions.map(({ message, key }) => this.#add(message, key));
      const refuse = () => {
        for (const task of tasks) task.answer = 'refused';
      };
      const results = await send().catch((error: Error) => {
        if (error instanceof QueueFull || error instanceof KeyReused) refuse();
        throw error;
      });
      if (process.isDead) return results;
      if (results.some((each) => each instanceof KeyReused)) refuse();
      else for (const [index, task] of tasks.entries()) this.#onPublished(task, results[index] as Published);
      return results;
    };
    store.publish = async (message, key, onAccepted) => {
      const [published] = await publishing([{ message, key }], async () => {
        return [await publish.call(store, message, key, onAccepted)];
      });
      return published as Published;
    };
    store.publishAll = (submissions, onAccepted) =>
      publishing(submissions, () => publishAll.call(store, submissions, onAccepted));
    store.take = (max, isIdle) => {
      const [pause, answers] = [this.#paused, this.#answers];
      const limited = this.#limits.taking(process.owner);
      const checkOrder = isAlone ? this.#turns.taking(store, this.#limits.hasAny()) : () => {};
      const result = take.call(store, max, isIdle);
      if (!(result instanceof Promise)) checkOrder(result);
      return after(result, (taken) => {
        if (process.isDead) return taken;
        // Callbacks are no tasks of clients.
        const tasks = taken.deliveries.filter(({ callbackOf }) => callbackOf === undefined);
        for (const delivery of tasks) this.#onTaken(delivery, answers, isAlone);
        for (const delivery of tasks) limited(delivery);
        const [first] = taken.deliveries;
        const isPaused = pause !== undefined && pause === this.#paused;
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
    store.setLimits = (action, limits, ...given) =>
      this.#limits.set(action, limits, process, () => setLimits.call(store, action, limits, ...given));
    store.setPaused = (isPaused) =>
      this.#pause.set(isPaused, process, async () => {
        await setPaused.call(store, isPaused);
        return 0;
      });
  }

  #onPublished(task: KnownTask, { id, isNew }: Published): void {
    if (!isNew) task.answer = 'refused';
    const named = this.tasks.get(id)?.key;
    const isSame = named?.key === task.key?.key && named?.fingerprint === task.key?.fingerprint;
    if (!isSame) this.#broken(ONE_TASK, `${task.name} was answered with ${this.#name(id)}`);
  }

  /** Records a delivery that a pool is given. Returns the listener of its run. @param busy number of running handlers */
  begin(delivery: Delivery, listener: AttemptListener, busy: () => number): AttemptListener {
    const attempt: Attempt = { delivery };
    const task = this.tasks.get(delivery.id);
    if (task?.attempts.has(delivery.delivery) !== false)
      this.#broken(ENDS_ONCE, `delivery ${delivery.delivery} of ${this.#name(delivery.id)} is given twice`);
    if (task !== undefined) this.#checkCharge(task, delivery);
    task?.attempts.set(delivery.delivery, attempt);
    return {
      onStart: () => {
        this.#onStart(delivery, busy());
        listener.onStart();
      },
      onAcknowledged: (how) => {
        attempt.early = how;
        this.#limits.ended(delivery);
        if (task !== undefined) task[how === 'ack' ? 'hasAcked' : 'mayHaveFailed'] = true;
        listener.onAcknowledged(how);
      },
      onProgress: (progress) => listener.onProgress(progress),
    };
  }

  /** Called when a thread gets a delivery. */
  onAssign({ id }: Delivery): void {
    const isPaused = this.#alone !== undefined && this.#paused !== undefined;
    if (isPaused) this.#broken(PAUSED, `${this.#name(id)} was given to a thread`);
  }

  #onStart(delivery: Delivery, busy: number): void {
    const { id, isSuspect } = delivery;
    if (isSuspect && busy > 1) this.#broken(SUSPECT, `${this.#name(id)} starts beside ${busy - 1} others`);
    this.#limits.started(delivery);
  }

  /** Called when a process has died. */
  onDeath(process: string): void {
    this.#limits.gone(process, false);
  }

  /** Called with the events of a process. */
  onEvent(event: QueueEvent): void {
    const task = 'id' in event ? this.tasks.get(event.id) : undefined;
    if (task === undefined) return;
    const name = event.event;
    this.#world.note(`    ${task.name} ${name}`);
    task.state = TRANSITIONS[name]?.state ?? task.state;
    if (event.event === 'failed') task.reason = event.reason;
    if (name !== 'progress') task.isCancelTold = false;
    if (name === 'accepted') task.deaths = 0;
    if (task.key !== undefined) task.keyed ??= { number: this.#keys++, at: this.#world.now, era: this.#era };
    if (name === 'accepted' && this.#alone !== undefined) this.#turns.waits(task);
    if (TRANSITIONS[name]?.next === undefined) {
      if (task.end !== undefined) this.#broken(EVENTS, `${task.name}: ${name} after ${task.end}`);
      task.end = name;
    }
    if (this.#alone !== undefined) this.#checkEvent(task, name, this.#alone);
    task.lastEvent = name;
  }

  /** Called when the only process has ended. */
  processEnded(isQueueKept = this.#isDurable): void {
    this.#pause.settle();
    this.#limits.settle();
    this.#turns.ended();
    for (const task of this.tasks.values()) {
      if (task.isInFlight && this.#isDurable) task.deaths += 1;
      task.mayHaveFailed ||= task.isInFlight;
      task.isInFlight = false;
      task.lastEvent = 'none';
      if (!isQueueKept && task.answer === 'accepted') task.answer = undefined;
    }
    if (isQueueKept) return;
    this.#pause.value = undefined;
    this.#changesLost();
  }

  /** Called when all changes may be lost that no answer reports. A queue in memory may be back as it was saved. */
  powerLost(): void {
    this.#changesLost();
    for (const task of this.tasks.values()) {
      task.isEndTold &&= this.#isDurable;
      task.isCancelTold = false;
      task.deaths = Number.NaN;
      task.attempts.clear();
      task.end = undefined;
      if (!task.isEndTold) task.endedAt = undefined;
      if (!task.isEndTold && task.state !== 'running') task.state = 'waiting';
    }
  }

  #changesLost(): void {
    this.#limits.lost(!this.#isDurable);
    this.#schedules.lost();
    this.#era += 1;
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
    const [ofTimes, ofSchedules] = [new Map<unknown, KnownTask>(), new Map<unknown, KnownTask>()];
    const unfinished = new Set(messages.flatMap(({ id, state }) => (state === 'failed' ? [] : id)));
    for (const task of this.tasks.values()) {
      const [hasRow, hasMessage] = [results.has(task.id), waiting.has(task.id)];
      const isStored = hasRow || hasMessage || task.attempts.size > 0;
      if (isStored && task.answer === 'refused') this.#broken(ACCEPTED, `${task.name} was refused and is stored`);
      if (isStored && task.key !== undefined) this.#checkKey(task, ofKeys);
      if (isStored && task.firing !== undefined) {
        const { name, task: time, isExclusive } = task.firing;
        const other = twinOf(task, `${name} ${time?.at}`, ofTimes);
        if (other !== undefined) this.#broken(ONE_TIME, `${task.name} has the ids ${other.id} and ${task.id}`);
        const isFirstRun = !this.hasRedriven || !task.mayHaveFailed;
        const beside = isExclusive && isFirstRun && unfinished.has(task.id) && twinOf(task, name, ofSchedules);
        if (beside) this.#broken(NO_OVERLAP, `${task.name} beside ${beside.name}`);
      }
      const isEnded = task.endedAt !== undefined;
      if (isEnded && hasMessage) this.#broken(ENDS_ONCE, `${task.name} has ended, and has a message`);
      const isCancelled = task.end === 'cancelled' || (task.isEndTold && task.attempts.size === 0);
      if (isCancelled && hasRow) this.#broken(CANCELLED, `${task.name} is cancelled and has a row`);
    }
  }

  /** Compares the counts with the tables. */
  auditCounts(counts: QueueCounts, messages: Tables['messages']): void {
    const { accepted, completed, dropped, cancelled, waiting, limited, scheduled, retrying, inFlight, dead } = counts;
    const unfinished = { waiting, limited, scheduled, retrying, running: inFlight, failed: dead };
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
      const hasDied = [...task.attempts.values()].some(({ outcome }) => outcome === undefined);
      // The commit of a completion may be lost with the process, whose death counts then.
      const isPurged = this.hasPurged && (task.mayHaveFailed || hasDied || task.deaths !== 0);
      const isDeleted = this.#world.setting.rows > 0 && task.outputs.size > 0;
      if (!isPurged && !isDeleted) this.#broken(ACCEPTED, `${task.name} has neither a row nor a dead letter`);
    }
  }

  #add(message: Message, key: IdempotencyKey | undefined): KnownTask {
    const task = newTask(message, this.submissionOf(message.id).name, key, this.#era);
    this.tasks.set(message.id, task);
    return task;
  }

  /** Records a message that a schedule may publish. */
  addFired(message: Message, firing: Firing): KnownTask {
    const { id, action = '', body } = message;
    const name = `${firing.name} at ${firing.task?.at}`;
    this.submissions.set(id, { name, mood: JSON.parse(body).data.mood, action, key: undefined, options: {} });
    return Object.assign(this.#add(message, undefined), { firing });
  }

  #maxAttempts(id: string): number {
    return actions.get(this.submissionOf(id).action)?.maxAttempts ?? retryPolicy.maxAttempts;
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
    const earlyMs = dueAt - this.#world.now;
    if (earlyMs > 0) this.#broken(TIMELY, `${task.name} was taken ${earlyMs} ms before its time`);
    const tooMany = attempt > this.#maxAttempts(id) || task.deaths > SUSPECT_DEATHS;
    const isWrong = isAlone && !Number.isNaN(task.deaths) && isSuspect !== task.deaths >= SUSPECT_DEATHS;
    const detail = `${task.name} was taken for attempt ${attempt}, after ${task.deaths} deaths, suspect: ${isSuspect}`;
    if (tooMany || isWrong) this.#broken(ATTEMPTS, detail);
    task.isInFlight = isAlone;
  }

  #onSettled(settled: Settled, effect: Effect): void {
    const { delivery, settlement } = settled;
    const task = this.tasks.get(delivery.id);
    if (task === undefined) return;
    const attempt = task.attempts.get(delivery.delivery);
    const isCharged = settlement.kind === 'retry' || settlement.kind === 'discard';
    const hasFailed = attempt !== undefined && isFailure(attempt);
    if (isCharged && !hasFailed) this.#broken(ATTEMPTS, `${task.name} is charged although its handler has not failed`);
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

  /** Records how a handler has ended, before its delivery is settled. */
  onEnd(delivery: Delivery, outcome: Outcome): void {
    this.#limits.ended(delivery);
    const task = this.tasks.get(delivery.id);
    const attempt = task?.attempts.get(delivery.delivery);
    if (task === undefined || attempt === undefined) return;
    attempt.outcome = outcome;
    if (outcome.ended !== 'returned') task.mayHaveFailed = true;
    else if (attempt.early !== 'nack') task.outputs.add(`{"output":${outcome.output}}`);
  }

  /** An attempt is charged only if its handler failed, and always if its retry had an effect. */
  #checkCharge({ name, attempts }: KnownTask, delivery: Delivery): void {
    // A process that stood still may begin an earlier delivery later.
    const former = attempts.get(Math.max(...[...attempts.keys()].filter((number) => number < delivery.delivery)));
    if (former === undefined || (this.hasRedriven && delivery.attempt === 1)) return;
    const { outcome, settled } = former;
    const isCharged = settled?.effect === 'applied' && settled.kind === 'retry';
    const charged = delivery.attempt - former.delivery.attempt;
    if (charged >= Number(isCharged) && charged <= Number(isFailure(former))) return;
    const how = `which ended with ${outcome?.ended}, ${settled?.kind} ${settled?.effect}`;
    this.#broken(ATTEMPTS, `${name}: attempt ${delivery.attempt} follows ${former.delivery.attempt}, ${how}`);
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
        Math.abs(now.number - before.number) >= this.#world.setting.maxKeys ||
        Math.abs(now.at - before.at) >= KEY_LIFETIME_MS);
    const isUncertain = !isKnown && this.#era > 0;
    if (!isForgotten && !isUncertain) this.#broken(ONE_TASK, `key ${key} names ${other.name} and ${task.name}`);
  }

  /** Checks an event against the one before it, and against the tables, in which it is committed. */
  #checkEvent(task: KnownTask, name: QueueEvent['event'], store: TaskStore): void {
    const { lastEvent } = task;
    if (!TRANSITIONS[lastEvent]?.next?.includes(name))
      this.#broken(EVENTS, `'${name}' of ${task.name} follows '${lastEvent}'`);
    const [message] = store.read([task.id], 1) as StoredMessage[];
    const state = message?.state === 'limited' ? 'waiting' : message?.state;
    // One commit may contain a cancellation as well.
    const isCancelled = state === undefined && task.isCancelRequested && (name === 'accepted' || name === 'scheduled');
    const isTrue = isCancelled || (TRANSITIONS[name]?.stored ?? [undefined]).includes(state);
    if (!isTrue) this.#broken(EVENTS, `'${name}' of ${task.name}, which is ${state}`);
  }

  #broken(rule: string, detail: string): void {
    this.#world.broken(rule, detail);
  }

  #name(id: string): string {
    return this.tasks.get(id)?.name ?? id;
  }
}

const UNKNOWN: Submission = { name: 'unknown', mood: 'quick', action: 'work', key: undefined, options: {} };

type EventName = QueueEvent['event'];

const RUNNING: readonly EventName[] = ['started', 'progress', 'completed', 'retrying', 'failed', 'cancelled'];

/** Events by name. An event with no next one is the end of its task, which has no message any more. */
const TRANSITIONS: Partial<Record<EventName | 'none', Transition>> = {
  // The task was accepted by an earlier process.
  none: { next: ['started', 'cancelled', 'accepted', 'scheduled', 'purged'] },
  accepted: { state: 'waiting', stored: ['waiting', 'running'], next: ['started', 'cancelled'] },
  scheduled: { state: 'waiting', stored: ['scheduled', 'waiting'], next: ['accepted', 'started', 'cancelled'] },
  // A run that is released has no event.
  started: { state: 'running', stored: ['running'], next: RUNNING },
  progress: { stored: ['running'], next: RUNNING },
  retrying: {
    state: 'waiting',
    stored: ['retrying', 'waiting', 'running'],
    next: ['accepted', 'started', 'cancelled'],
  },
  failed: { state: 'failed', stored: ['failed'], next: ['accepted', 'purged'] },
  ...{ completed: { state: 'completed' }, cancelled: { state: 'cancelled' }, purged: { state: 'purged' } },
};

interface Transition {
  /** State that the event tells. */
  state?: State;
  /** States in which the tables may have the task at its event. */
  stored?: readonly (string | undefined)[];
  /** Events that may follow in one process. */
  next?: readonly EventName[];
}

/** Whether a handler has failed, so that its attempt is charged. */
function isFailure({ early, outcome }: Attempt): boolean {
  return early === 'nack' || outcome?.ended === 'raised' || outcome?.ended === 'crashed';
}

/** Returns the former task of the same kind that was not lost, and keeps this one. */
function twinOf(task: KnownTask, kind: unknown, last: Map<unknown, KnownTask>): KnownTask | undefined {
  const former = last.get(kind);
  last.set(kind, task);
  return former?.era === task.era ? former : undefined;
}

/** Calls `then` with a value, at once if it is no promise. */
function after<T>(value: Awaitable<T>, then: (value: T) => T): Awaitable<T> {
  return value instanceof Promise ? value.then(then) : then(value);
}

import type { Firing } from '../../db/schedules.ts';
import type * as db from '../../db/task-store.ts';
import { KEY_LIFETIME_MS, KeyReused, QueueFull, SUSPECT_DEATHS, unfinished } from '../../db/task-store.ts';
import { retryPolicy } from '../../main/tasks/dispatch/retry-policy.ts';
import type { AttemptListener, Outcome } from '../../main/tasks/pool/run.ts';
import type { QueueEvent, TaskEvent } from '../../main/tasks/task-events.ts';
import type { Acknowledgement } from '../../workers/tasks/messages.ts';
import { actions, type Backend, type Process } from './process.ts';
import { auditCallbacks, knownValue, limitUse, NOTHING, ONE_TIME, scheduleOracle, watch } from './rules.ts';
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
const BOUND = 'A full queue refuses tasks.';
const TIMELY = 'No task starts before its time.';
const NO_OVERLAP = 'With overlap: skip, a schedule has one unfinished task.';
export const REST = 'After the faults, processing resumes automatically, and each task ends.';

type State = 'waiting' | 'running' | 'failed' | 'completed' | 'cancelled' | 'purged';

type EventName = TaskEvent['event'];

interface Attempt {
  delivery: db.Delivery;
  early?: Acknowledgement;
  outcome?: Outcome;
  /** Its settlement. Undefined without an answer. */
  settled?: { kind: string; effect: db.Effect };
}

export type History = ReturnType<typeof createHistory>;

export type KnownTask = ReturnType<typeof newTask>;

/** Returns what is known of a task when it is submitted. @param era number of losses of the queue before */
function newTask(message: db.Message, name: string, key: db.IdempotencyKey | undefined, era: number) {
  return {
    ...{ id: message.id, name, message, key, era },
    firing: undefined as Firing | undefined,
    /** When the task is due. Undefined if it was run before its time. */
    dueAt: message.runAt,
    /** When the key was stored: number among all keys, time, and era between losses of keys. */
    keyed: undefined as { number: number; at: number; era: number } | undefined,
    state: 'waiting' as State,
    reason: undefined as string | undefined,
    answer: undefined as 'accepted' | 'refused' | undefined,
    /** Number of the end, after whose answer no take may return the task. */
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
    taken: 0,
    /** Number of process deaths since the last failed attempt. NaN if unknown. */
    deaths: 0,
    outputs: new Set<string>(),
    attempts: new Map<number, Attempt>(),
    lastEvent: 'none' as EventName | 'none',
  };
}

export interface Tables {
  rows: readonly { id: string; result: string }[];
  messages: readonly Pick<db.StoredMessage, 'id' | 'state'>[];
  /** Callbacks, completed or not, if tasks have some. */
  callbacks?: readonly { body: string }[];
}

/**
 * Record of all answers, deliveries, settlements and events of the tasks, and the guarantees that follow from it. If one
 * process has the store alone, the record has the order of the commits, so more can be checked.
 */
export function createHistory(world: World) {
  const tasks = new Map<string, KnownTask>();
  const names = new Map<string, string>();
  const { broken } = world;
  const limits = limitUse(world);
  const schedules = scheduleOracle(world);
  const knownPause = knownValue<boolean>(world);
  /** Whether the queue survives the death of its only process. */
  const isDurable = world.setting.driver === 'sqlite';
  /** Reads the table of the only process. Undefined if there are several. */
  let stateOf: Backend['stateOf'];
  let [ends, keys, era] = [0, 0, 0];

  const nameOf = (id: string) => names.get(id) ?? id;
  const tasksIn = (...states: State[]) => [...tasks.values()].filter(({ state }) => states.includes(state));
  const unfinishedOf = (schedule: string) =>
    tasksIn('waiting', 'running').filter((task) => task.message.schedule === schedule && task.answer !== 'refused');
  const untouched = () =>
    tasksIn('waiting').filter(
      (task) => task.answer === 'accepted' && task.era === era && task.attempts.size === 0 && !task.isCancelRequested,
    );

  function told(process: Process, id: string, what: 'accepted' | 'cancelled' | 'requested' | 'purged'): void {
    const task = tasks.get(id);
    if (task === undefined || process.isDead) return;
    if (what === 'accepted') task.answer = 'accepted';
    else if (what === 'requested') task.isCancelTold = task.state === 'running';
    else {
      task.endedAt ??= ++ends;
      task.isEndTold = true;
    }
  }

  function observe(backend: Backend, process: Process): void {
    const { store } = backend;
    const isAlone = !store.isShared;
    stateOf = backend.stateOf;
    limits.observe(store, process);
    schedules.observe(store.schedules, process, isAlone);
    const publishing = (submissions: readonly db.Submission[]) => {
      const tasks = submissions.map(({ message, key }) => add(message, key));
      const { failingSyncs } = history;
      return (results: readonly (db.Published | KeyReused)[] = [], error?: Error) => {
        const isUnwritten = error && failingSyncs !== undefined && failingSyncs === history.failingSyncs;
        const isRefused = isUnwritten || [error, ...results].some((each) => each instanceof KeyReused);
        if (isRefused || error instanceof QueueFull) for (const task of tasks) task.answer = 'refused';
        else for (const [index, each] of results.entries()) onPublished(tasks[index], each as db.Published);
      };
    };
    watch(store, process, {
      publish(message, key) {
        const answered = publishing([{ message, key }]);
        return (published, error) => answered(published && [published], error);
      },
      publishAll: publishing,
      take: () => {
        const [pause, endsBefore] = [knownPause.value, ends];
        return ({ deliveries } = NOTHING) => {
          // Callbacks are no tasks of clients.
          for (const delivery of deliveries)
            if (delivery.callbackOf === undefined) onTaken(delivery, endsBefore, isAlone);
          const isPaused = pause?.is && pause === knownPause.value;
          if (isPaused && deliveries[0]) broken(PAUSED, `${nameOf(deliveries[0].id)} was taken`);
        };
      },
      settle: (settled) => {
        const former = settled.map(({ delivery }) => delivery.delivery < (tasks.get(delivery.id)?.taken ?? 0));
        return ({ effects } = { effects: [], evicted: [] }) => {
          for (const [index, effect] of effects.entries())
            onSettled(settled[index] as db.Settled, effect, former[index] === true);
        };
      },
      cancel: (id) => void Object.assign(tasks.get(id) ?? {}, { isCancelRequested: true }),
      setPaused: (isPaused) => {
        const answered = knownPause.request();
        return (_, error) => error ?? answered(isPaused);
      },
    });
  }

  function onPublished(task: KnownTask | undefined, { id, isNew }: db.Published): void {
    if (task === undefined) return;
    if (!isNew) task.answer = 'refused';
    const named = tasks.get(id)?.key;
    const isSame = named?.key === task.key?.key && named?.fingerprint === task.key?.fingerprint;
    if (!isSame) broken(ONE_TASK, `${task.name} was answered with ${nameOf(id)}`);
  }

  /** Records a delivery that a pool is given. Returns the listener of its run. @param busy number of running handlers */
  function begin(delivery: db.Delivery, listener: AttemptListener, busy: () => number): AttemptListener {
    const attempt: Attempt = { delivery };
    const { id, isSuspect } = delivery;
    const task = tasks.get(id);
    if (task?.attempts.has(delivery.delivery) !== false)
      broken(ENDS_ONCE, `delivery ${delivery.delivery} of ${nameOf(id)} is given twice`);
    if (task !== undefined) checkCharge(task, delivery);
    task?.attempts.set(delivery.delivery, attempt);
    return {
      onStart: () => {
        if (isSuspect && busy() > 1) broken(SUSPECT, `${nameOf(id)} starts beside ${busy() - 1} others`);
        const unwritten = isSuspect && tasksIn('running').find((each) => each.isInFlight && each !== task);
        if (unwritten) broken(SUSPECT, `${nameOf(id)} starts before the end of ${unwritten.name} is written`);
        limits.started(delivery);
        listener.onStart();
      },
      onAcknowledged: (how) => {
        attempt.early = how;
        limits.ended(delivery);
        if (task !== undefined) task[how === 'ack' ? 'hasAcked' : 'mayHaveFailed'] = true;
        listener.onAcknowledged(how);
      },
      onProgress: (progress) => listener.onProgress(progress),
    };
  }

  /** Called when a thread of a process gets a delivery. A node of several may not know yet of a pause. */
  function onAssign({ id }: db.Delivery, { queue }: Process): void {
    if (queue.isPaused || (stateOf !== undefined && knownPause.value?.is))
      broken(PAUSED, `${nameOf(id)} was given to a thread`);
  }

  /** Records an event. If one process has the store alone, also checks its order, and that it is committed. */
  function onEvent(event: QueueEvent): void {
    const task = 'id' in event ? tasks.get(event.id) : undefined;
    if (task === undefined) return;
    const { name, lastEvent, state: former } = task;
    const told = event.event as EventName;
    const [shown = task.state, stored = [undefined], next] = TRANSITIONS[told];
    world.note(`    ${name} ${told}`);
    task.state = shown;
    task.lastEvent = told;
    if (event.event === 'failed') task.reason = event.reason;
    if (told !== 'progress') task.isCancelTold = false;
    if (told === 'accepted') task.deaths = 0;
    if (task.key !== undefined) task.keyed ??= { number: keys++, at: world.now, era };
    const hasEnded = former === 'completed' || former === 'cancelled' || former === 'purged';
    if (next === undefined && hasEnded) broken(EVENTS, `${name}: ${told} after ${former}`);
    if (stateOf === undefined) return;
    if (!TRANSITIONS[lastEvent][2]?.includes(told)) broken(EVENTS, `'${told}' of ${name} follows '${lastEvent}'`);
    const state = stateOf(task.id);
    const found = state === 'limited' ? 'waiting' : state;
    // One commit may contain a cancellation as well.
    const isCancelled = found === undefined && task.isCancelRequested && (told === 'accepted' || told === 'scheduled');
    if (!isCancelled && !stored.includes(found)) broken(EVENTS, `'${told}' of ${name}, which is ${found}`);
  }

  function processEnded(isQueueKept = isDurable): void {
    history.failingSyncs = undefined;
    for (const task of tasks.values()) {
      if (task.isInFlight && isDurable) task.deaths += 1;
      task.mayHaveFailed ||= task.isInFlight;
      task.isInFlight = false;
      task.lastEvent = 'none';
      if (!isQueueKept && task.answer === 'accepted') task.answer = undefined;
    }
    if (isQueueKept) return;
    knownPause.value = undefined;
    changesLost();
  }

  /** Called when all changes may be lost that no answer reports. A queue in memory may be back as it was saved. */
  function powerLost(): void {
    changesLost();
    for (const task of tasks.values()) {
      task.isEndTold &&= isDurable;
      Object.assign(task, { isCancelTold: false, deaths: Number.NaN });
      task.attempts.clear();
      if (task.isEndTold) continue;
      task.endedAt = undefined;
      if (task.state !== 'running') task.state = 'waiting';
    }
  }

  function changesLost(): void {
    limits.lost(!isDurable);
    schedules.lost();
    era += 1;
    for (const task of tasks.values()) task.taken = 0;
  }

  function audit(tables: Tables, counts: db.QueueCounts): void {
    const { rows, messages } = tables;
    const callbacks = auditCallbacks(world, tables);
    auditCounts(counts, messages);
    const waiting = new Set(messages.flatMap(({ id }) => (callbacks.has(id) ? [] : id)));
    const results = new Map(rows.flatMap(({ id, result }) => (callbacks.has(id) ? [] : [[id, result]])));
    for (const [id, result] of results) {
      if (waiting.has(id)) broken(ENDS_ONCE, `${nameOf(id)} has a row and a message`);
      const isKnown = [...(tasks.get(id)?.outputs ?? [])].some((output) => output.startsWith(result));
      if (!isKnown) broken(OUTPUT, `no run of ${nameOf(id)} returned ${result}`);
    }
    for (const id of waiting) if (!tasks.has(id)) broken(ENDS_ONCE, `${id} was never submitted`);
    /** The last task of each key, of each time of a schedule, and of each schedule. */
    const last = new Map<string, KnownTask>();
    const formerOf = (task: KnownTask, what: string) => {
      const former = last.get(what);
      last.set(what, task);
      return former;
    };
    const queued = new Set(messages.flatMap(({ id, state }) => (state === 'failed' ? [] : id)));
    for (const task of tasks.values()) {
      const [hasRow, hasMessage] = [results.has(task.id), waiting.has(task.id)];
      const isStored = hasRow || hasMessage || task.attempts.size > 0;
      if (isStored && task.answer === 'refused') broken(ACCEPTED, `${task.name} was refused and is stored`);
      const named = isStored && task.key && formerOf(task, `key ${task.key.key}`);
      if (named && !mayBeForgotten(task, named))
        broken(ONE_TASK, `key ${task.key?.key} names ${named.name} and ${task.name}`);
      if (isStored && task.firing !== undefined) {
        const { name, task: time, isExclusive } = task.firing;
        const other = formerOf(task, `${name} ${time?.at}`);
        if (other?.era === task.era) broken(ONE_TIME, `${task.name} has the ids ${other.id} and ${task.id}`);
        // Another node may dead-letter a task at its third death, and the answer may be lost.
        const mayHaveDied = stateOf === undefined && task.taken > SUSPECT_DEATHS;
        const isFirstRun = !history.hasRedriven || !(task.mayHaveFailed || mayHaveDied);
        const beside = isExclusive && isFirstRun && queued.has(task.id) && formerOf(task, name);
        if (beside && beside.era === task.era) broken(NO_OVERLAP, `${task.name} beside ${beside.name}`);
      }
      if (task.endedAt !== undefined && hasMessage) broken(ENDS_ONCE, `${task.name} has ended, and has a message`);
      const isTold = stateOf !== undefined && task.lastEvent !== 'none' && !task.isCancelRequested;
      if (isTold && !hasMessage && (task.state === 'waiting' || task.state === 'running'))
        broken(EVENTS, `${task.name} has no message after '${task.lastEvent}'`);
      const isCancelled = task.state === 'cancelled' || (task.isEndTold && task.attempts.size === 0);
      if (isCancelled && hasRow) broken(CANCELLED, `${task.name} is cancelled and has a row`);
    }
  }

  function auditCounts(counts: db.QueueCounts, messages: Tables['messages']): void {
    const { accepted, completed, dropped, cancelled, waiting, limited, scheduled, retrying, inFlight, dead } = counts;
    const stored = Object.entries({ waiting, limited, scheduled, retrying, running: inFlight, failed: dead });
    const sum = stored.reduce((total, [, count]) => total + count, completed + dropped + cancelled);
    const isEqual = stored.every(([name, count]) => count === messages.filter(({ state }) => state === name).length);
    if (accepted !== sum || !isEqual || (messages.length === dead && counts.bytes !== 0))
      broken(COUNTS, `${JSON.stringify(counts)} of ${messages.length} messages`);
    const length = unfinished(counts);
    if (length > world.setting.bounds.maxLength) broken(BOUND, `the queue has ${length} tasks`);
  }

  function auditRest({ rows, messages }: Tables, unanswered: readonly string[]): void {
    if (unanswered.length > 0) broken(REST, `no answer to ${unanswered.join(', ')}`);
    const stored = new Set([...rows, ...messages].map(({ id }) => id));
    for (const { id, state } of messages) if (state !== 'failed') broken(REST, `${nameOf(id)} is ${state}`);
    for (const task of tasks.values()) {
      if (task.answer !== 'accepted' || stored.has(task.id) || task.isCancelRequested || task.hasAcked) continue;
      const hasDied = [...task.attempts.values()].some(({ outcome }) => outcome === undefined);
      // The commit of a completion may be lost with the process, whose death counts then.
      const isPurged = history.hasPurged && (task.mayHaveFailed || hasDied || task.deaths !== 0);
      const isDeleted = world.setting.rows > 0 && task.outputs.size > 0;
      if (!isPurged && !isDeleted) broken(ACCEPTED, `${task.name} has neither a row nor a dead letter`);
    }
  }

  function add(message: db.Message, key: db.IdempotencyKey | undefined): KnownTask {
    const { id } = message;
    const task = tasks.get(id) ?? newTask(message, nameOf(id), key, era);
    tasks.set(id, task);
    return task;
  }

  function addFired(message: db.Message, firing: Firing): KnownTask {
    names.set(message.id, `${firing.name} at ${firing.task?.at}`);
    return Object.assign(add(message, undefined), { firing });
  }

  function onTaken({ id, attempt, isSuspect, delivery }: db.Delivery, endsBefore: number, isAlone: boolean): void {
    const task = tasks.get(id);
    if (task === undefined) {
      broken(ENDS_ONCE, `${id} was never submitted`);
      return;
    }
    const { name, endedAt, dueAt = 0, deaths } = task;
    if (endedAt !== undefined && endedAt <= endsBefore) broken(ENDS_ONCE, `${name} was taken after its end`);
    const earlyMs = dueAt - world.now;
    if (earlyMs > 0) broken(TIMELY, `${name} was taken ${earlyMs} ms before its time`);
    const { maxAttempts = retryPolicy.maxAttempts } = actions.get(task.message.action ?? '') ?? {};
    const tooMany = attempt > maxAttempts || deaths > SUSPECT_DEATHS;
    const isWrong = isAlone && !Number.isNaN(deaths) && isSuspect !== deaths >= SUSPECT_DEATHS;
    const detail = `${name} was taken for attempt ${attempt}, after ${deaths} deaths, suspect: ${isSuspect}`;
    if (tooMany || isWrong) broken(ATTEMPTS, detail);
    task.isInFlight = isAlone;
    task.taken = Math.max(task.taken, delivery);
  }

  /** @param isFormer whether a later delivery was known when the settlement was sent */
  function onSettled({ delivery, settlement: { kind } }: db.Settled, effect: db.Effect, isFormer: boolean): void {
    const task = tasks.get(delivery.id);
    if (task === undefined) return;
    const { name } = task;
    const attempt = task.attempts.get(delivery.delivery);
    const isCharged = kind === 'retry' || kind === 'discard';
    if (isCharged && !(attempt !== undefined && isFailure(attempt)))
      broken(ATTEMPTS, `${name} is charged although its handler has not failed`);
    if (attempt !== undefined) attempt.settled = { kind, effect };
    if (effect === 'late') return;
    if (isFormer && kind !== 'row')
      broken(ENDS_ONCE, `${name}: the settlement of delivery ${delivery.delivery} changes a later one`);
    task.isInFlight = false;
    if (kind === 'retry') task.deaths = 0;
    if (effect === 'cancelled' || kind === 'complete' || kind === 'ack' || kind === 'cancel') task.endedAt ??= ++ends;
    const isAgain = (kind === 'retry' || kind === 'release') && effect === 'applied';
    if (stateOf !== undefined && isAgain && task.isCancelTold)
      broken(CANCELLED, `${name} waits again, although its cancellation was answered`);
    if (effect === 'cancelled' && !task.isCancelRequested) broken(CANCELLED, `${name} was cancelled without a request`);
  }

  function onEnd(delivery: db.Delivery, outcome: Outcome): void {
    limits.ended(delivery);
    const task = tasks.get(delivery.id);
    const attempt = task?.attempts.get(delivery.delivery);
    if (task === undefined || attempt === undefined) return;
    attempt.outcome = outcome;
    if (outcome.ended !== 'returned') task.mayHaveFailed = true;
    else if (attempt.early !== 'nack') task.outputs.add(`{"output":${outcome.output}}`);
  }

  /** An attempt is charged only if its handler failed, and always if its retry had an effect. */
  function checkCharge({ name, attempts }: KnownTask, delivery: db.Delivery): void {
    // A process that stood still may begin an earlier delivery later.
    const former = attempts.get(Math.max(...[...attempts.keys()].filter((number) => number < delivery.delivery)));
    if (former === undefined || (history.hasRedriven && delivery.attempt === 1)) return;
    const { outcome, settled } = former;
    const isCharged = settled?.effect === 'applied' && settled.kind === 'retry';
    const charged = delivery.attempt - former.delivery.attempt;
    if (charged >= Number(isCharged) && charged <= Number(isFailure(former))) return;
    const how = `which ended with ${outcome?.ended}, ${settled?.kind} ${settled?.effect}`;
    broken(ATTEMPTS, `${name}: attempt ${delivery.attempt} follows ${former.delivery.attempt}, ${how}`);
  }

  /** Whether the key of one of two tasks may no longer have been stored when the other was submitted. */
  function mayBeForgotten({ keyed: one }: KnownTask, { keyed: other }: KnownTask): boolean {
    if (one === undefined || other === undefined) return era > 0;
    const isEvicted = Math.abs(one.number - other.number) >= world.setting.bounds.maxKeys;
    return isEvicted || one.era !== other.era || Math.abs(one.at - other.at) >= KEY_LIFETIME_MS;
  }

  const history = {
    ...{ tasks, names, nameOf, limits, tasksIn, unfinishedOf, untouched, told, addFired, onEvent, observe },
    ...{ begin, onAssign, onEnd, processEnded, powerLost, audit, auditRest },
    /** Whether a redrive was requested, which may have changed any dead letter, and may still do so. */
    hasRedriven: false,
    hasPurged: false,
    /** The failed syncs of the only process since its last successful sync. */
    failingSyncs: undefined as object | undefined,
  };
  return history;
}

const RUNNING: readonly EventName[] = ['started', 'progress', 'completed', 'retrying', 'failed', 'cancelled'];
const NEXT_OF_WAITING: readonly EventName[] = ['accepted', 'started', 'cancelled'];

type Transition = [state: State | undefined, stored?: readonly (string | undefined)[], next?: readonly EventName[]];

/**
 * Events: the state that each tells, the states in which the tables may have the task at that moment, and the events that
 * may follow in one process. An event with no next one is the end of its task, which has no message any more.
 */
const TRANSITIONS: Record<EventName | 'none', Transition> = {
  // The task was accepted by an earlier process.
  none: [undefined, [], [...NEXT_OF_WAITING, 'scheduled', 'purged']],
  accepted: ['waiting', ['waiting', 'running'], ['started', 'cancelled']],
  scheduled: ['waiting', ['scheduled', 'waiting'], NEXT_OF_WAITING],
  // A run that is released has no event.
  started: ['running', ['running'], RUNNING],
  progress: [undefined, ['running'], RUNNING],
  retrying: ['waiting', ['retrying', 'waiting', 'running'], NEXT_OF_WAITING],
  failed: ['failed', ['failed'], ['accepted', 'purged']],
  ...{ completed: ['completed'], cancelled: ['cancelled'], purged: ['purged'] },
};

/** Whether a handler has failed, so that its attempt is charged. */
function isFailure({ early, outcome }: Attempt): boolean {
  return early === 'nack' || outcome?.ended === 'raised' || outcome?.ended === 'crashed';
}

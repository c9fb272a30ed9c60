import type { Firing, Schedules } from '../../db/schedules.ts';
import type * as db from '../../db/task-store.ts';
import { type CompleteDefinition, readDefinition } from '../../main/tasks/schedules/definition.ts';
import type { Tables } from './history.ts';
import type { Process } from './process.ts';
import type { Mood, World } from './world.ts';

/** A store of one process, or of one node of several, which recovers the messages of others. */
export interface ObservedStore extends db.TaskStore {
  recover?(owner: string): Promise<readonly db.TaskSubject[]>;
}

export const NOTHING: db.Taken = { deliveries: [], nextRunAt: undefined };

/** Time for which a request without an answer may still take effect. */
const UNCERTAIN_MS = 10_000;

/** Called with the answer to a request, or with its error, unless the process has died meanwhile. */
type OnAnswer<Answer> = (answer: Answer | undefined, error?: Error) => unknown;

/** Functions that are called before requests, by the name of the method. */
type Watchers<Target> = {
  [Name in keyof Target]?: NonNullable<Target[Name]> extends (...values: infer Values) => infer Answer
    ? (...values: Values) => OnAnswer<Awaited<Answer>> | undefined
    : never;
};

export function watch<Target extends object>(
  target: Target,
  process: { isDead: boolean },
  watchers: Watchers<Target>,
): void {
  type Method<Result> = (...values: unknown[]) => Result;
  for (const [name, onRequest] of Object.entries(watchers as Record<string, Method<OnAnswer<unknown> | undefined>>)) {
    const method = Reflect.get(target, name) as Method<unknown> | undefined;
    if (method === undefined) continue;
    const request = (...values: unknown[]) => {
      const onAnswer = onRequest(...values);
      const result = method.apply(target, values);
      const answered = (answer?: unknown, error?: Error) => process.isDead || onAnswer?.(answer, error);
      if (result instanceof Promise) void result.then(answered, (error) => answered(undefined, error));
      else answered(result);
      return result;
    };
    Reflect.set(target, name, request);
  }
}

type KnownValue<T> = ReturnType<typeof knownValue<T>>;

/** A value that requests change, such as the pause, as far as their answers show it. @param value `is` at first */
export function knownValue<T>(world: World, value?: { is: T }) {
  /** The last request, until its answer. */
  let pending: object | undefined;
  /** Until when a request without an answer may take effect after a later one. */
  let uncertainUntil = 0;
  return {
    /** The value that has certainly taken effect. */
    value,

    /** Begins a request. Returns a function to call after the answer with the value that it leaves, if that is known. */
    request(): (is: T | undefined) => void {
      this.value = undefined;
      if (pending !== undefined) uncertainUntil = world.now + UNCERTAIN_MS;
      const request = { isCertain: world.now >= uncertainUntil };
      pending = request;
      return (is) => {
        if (request !== pending) return;
        pending = undefined;
        if (request.isCertain && is !== undefined) this.value = { is };
      };
    },
  };
}

const LIMITED = 'A limit is never exceeded.';

/** Use of limits, counted by the starts and ends of the handlers of all processes. */
export function limitUse(world: World) {
  const limits = new Map<string, KnownValue<db.ActionLimits>>();
  const running = new Map<db.Delivery, string>();
  /** Times of the starts of each pool, since limits were set. */
  const starts = new Map<string, number[]>();
  /** When each delivery was requested, and by which process. */
  const takes = new WeakMap<db.Delivery, { process: string; at: number; inForce: object | undefined }>();
  /** When others last took a process for dead, which may have been alive. */
  const recovered = new Map<string, number>();

  /** Called when a process has died, or others take it for dead. */
  function gone(process: string): void {
    for (const [delivery, of] of running) if (of === process) running.delete(delivery);
  }

  return {
    gone,
    observe(store: ObservedStore, process: Process): void {
      watch(store, process, {
        take() {
          const take = { process: process.owner, at: world.now };
          const inForce = new Map([...limits].map(([action, { value }]) => [action, value]));
          return ({ deliveries } = NOTHING) => {
            for (const each of deliveries) takes.set(each, { ...take, inForce: inForce.get(each.action ?? '') });
          };
        },
        recover(owner) {
          gone(owner);
          recovered.set(owner, world.now);
          return undefined;
        },
        setLimits(action, given = {}) {
          const known = limits.get(action) ?? knownValue<db.ActionLimits>(world);
          limits.set(action, known);
          const answered = known.request();
          return (_, error) => {
            if (error !== undefined) return;
            // Starts before that may not have been counted.
            for (const pool of starts.keys()) if (pool.startsWith(`${action} `)) starts.delete(pool);
            answered(given);
          };
        },
      });
    },

    started(delivery: db.Delivery): void {
      const take = takes.get(delivery);
      // The places of a process that was taken for dead are given to others, although its handlers may run.
      const isCurrent = take && take.at > (recovered.get(take.process) ?? Number.NEGATIVE_INFINITY) + UNCERTAIN_MS;
      if (!isCurrent) return;
      running.set(delivery, take.process);
      const { action = '', limitKey } = delivery;
      const { value } = limits.get(action) ?? {};
      for (const key of limitKey === undefined ? [''] : ['', limitKey]) {
        const { concurrency = Infinity, rate }: db.Limit = (key === '' ? value?.is : value?.is.perKey) ?? {};
        const times = [...(starts.get(`${action} ${key}`) ?? []), world.now];
        starts.set(`${action} ${key}`, times);
        // A thread may have had it when the limits were set.
        if (value === undefined || take.inForce !== value) continue;
        const isOf = (each: db.Delivery) => each.action === action && (key === '' || each.limitKey === key);
        const { length: runs } = [...running.keys()].filter(isOf);
        if (runs > concurrency) world.broken(LIMITED, `${runs} tasks of ${action} ${key} run, not ${concurrency}`);
        const { length } = rate === undefined ? [] : times.filter((time) => time > world.now - rate.ms);
        if (rate !== undefined && length > rate.count)
          world.broken(LIMITED, `${length} of ${action} ${key} start within ${rate.ms} ms, not ${rate.count}`);
      }
    },

    ended: (delivery: db.Delivery) => running.delete(delivery),

    /** Called when starts that are not synced may be lost. @param areLimitsLost whether all limits are */
    lost(areLimitsLost: boolean): void {
      starts.clear();
      if (areLimitsLost) limits.clear();
    },
  };
}

const CALLBACK = 'Each end of a task with a callback URL has exactly one callback.';
const CAUGHT_UP = 'Only missed times are left out, as catch_up says.';

/** Delay from which on a time counts as missed, and number of missed times that run. */
const [LATE_MS, MAX_CAUGHT_UP] = [10_000, 100];

const CRONS = { 5: '*/5 * * * * *', 10: '*/10 * * * * *', 60: '* * * * *', 3600: '0 * * * *' } as const;

export function scheduleOf(name: string, mood: Mood, paused: boolean, now: number): CompleteDefinition {
  const [every = '', catch_up, overlap] = name.split('.');
  const cron = CRONS[every as unknown as keyof typeof CRONS];
  return readDefinition(name, { cron, action: 'work', data: { mood }, catch_up, overlap, paused }, now, []);
}

export const ONE_TIME = 'Each time of a schedule makes one task.';

export function scheduleOracle(world: World) {
  type Next = number | null | 'none';
  /** The next time of each schedule, null if it is paused. */
  const known = new Map<string, KnownValue<Next>>();

  /** @param isAlone whether no other process changes the schedules */
  function observe(schedules: Schedules, process: Process, isAlone: boolean): void {
    const begin = (name: string) => {
      const schedule = known.get(name) ?? knownValue<Next>(world, { is: 'none' });
      known.set(name, schedule);
      return { next: schedule.value?.is, answered: schedule.request() };
    };
    watch(schedules, process, {
      fire(firing) {
        const { name, dueAt, nextAt, task, isExclusive } = firing;
        const fired = task && world.history.addFired(task.message, firing);
        const hasOthers = isAlone && isExclusive && world.history.unfinishedOf(name).length > 1;
        const { next, answered } = begin(name);
        const problem = windowProblem(firing, process.firesFrom);
        if (problem !== undefined && !process.isDead) world.broken(CAUGHT_UP, `${name}: ${problem}`);
        return (effect, error) => {
          const isFull = error?.name === 'QueueFull';
          answered(isFull ? next : error === undefined && effect !== 'changed' ? nextAt : undefined);
          if (error !== undefined && !isFull) return;
          if (fired !== undefined) fired.answer = effect === 'fired' ? 'accepted' : 'refused';
          // Another process may have changed it.
          if (!isAlone || error !== undefined) return;
          if (effect !== 'changed' && next !== undefined && dueAt !== next)
            world.broken(CAUGHT_UP, `${name} goes on at ${dueAt}, not at ${next}`);
          // One may have been redriven meanwhile.
          const isOnly = !hasOthers && world.history.unfinishedOf(name).length === 0;
          if (effect === 'skipped' && task !== undefined && isOnly)
            world.broken(ONE_TIME, `${name} skips ${task.at} although it has no unfinished task`);
        };
      },
      put({ name, nextAt }) {
        const { next, answered } = begin(name);
        // A schedule that is not paused keeps its next time, unless it is paused now.
        const keeps = typeof next === 'number' || next === undefined;
        return (isPut, error) =>
          answered(error !== undefined ? undefined : !isPut || (keeps && nextAt !== null) ? next : nextAt);
      },
      delete: (name) => {
        const { answered } = begin(name);
        return () => answered(undefined);
      },
    });
  }

  return {
    observe,
    /** Called when changes may be lost, so that the next times are unknown. */
    lost(): void {
      for (const each of known.values()) each.value = undefined;
    },
  };

  /** Returns how an advance breaks the rule of missed times. @param firesFrom time before which others are missed */
  function windowProblem({ name, dueAt, nextAt, task }: Firing, firesFrom: number): string | undefined {
    const { now } = world;
    const [every, catchUp] = name.split('.');
    const everyMs = Number(every) * 1000;
    const at = task?.at;
    if (dueAt > now || (at ?? 0) > now) return `${at ?? dueAt} is fired early`;
    const times: number[] = [];
    for (let time = dueAt; time < (nextAt ?? 0); time += everyMs) times.push(time);
    if (nextAt === null || nextAt % everyMs !== 0 || (at !== undefined && !times.includes(at))) return 'wrong times';
    const others = times.filter((time) => time !== at);
    const isPassed = others.some((time) => time >= firesFrom && time >= now - LATE_MS);
    const isLeftOut = catchUp === 'all' && others.some((time) => time > now - MAX_CAUGHT_UP * everyMs);
    const isLastLeftOut = catchUp === 'one' && others.some((time) => time > (at ?? 0));
    const isCaughtUp = catchUp === 'none' && at !== undefined && at < now - 2 * LATE_MS;
    if (!isPassed && !isLeftOut && !isLastLeftOut && !isCaughtUp) return undefined;
    return `of ${times.join()} until ${now}, with catch_up ${catchUp}, ${at ?? 'none'} is fired`;
  }
}

/** Checks the callbacks in the tables. Returns their ids, because they are no tasks of clients. */
export function auditCallbacks(world: World, { rows, messages, callbacks: stored = [] }: Tables): Set<string> {
  if (!world.setting.callbacks) return new Set();
  const { tasks, hasPurged, hasRedriven } = world.history;
  const callbacks = stored.map(({ body }): { id: string; data: db.CallbackData } => JSON.parse(body));
  const ofTasks = Map.groupBy(callbacks, ({ data }) => data.task);
  const completed = new Set(rows.map(({ id }) => id));
  const states = new Map<string, string>(messages.map(({ id, state }) => [id, state]));
  for (const id of ofTasks.keys())
    if (tasks.get(id)?.message.callbackUrl === undefined) world.broken(CALLBACK, `${id} has no callback URL`);
  for (const { id, name, message, isEndTold, state: told } of tasks.values()) {
    if (message.callbackUrl === undefined) continue;
    const count = (status: string) => ofTasks.get(id)?.filter(({ data }) => data.status === status).length ?? 0;
    const [done, cancelled, failed] = [count('completed'), count('cancelled'), count('failed')];
    const state =
      states.get(id) ?? (completed.has(id) ? 'completed' : isEndTold && told === 'cancelled' ? told : 'gone');
    // A purge may delete callbacks that have failed.
    const least = hasPurged ? 0 : 1;
    const isEnded = !states.has(id);
    const isFinal = state === 'completed' || state === 'cancelled';
    const ends = done + cancelled;
    const isRight =
      ends <= Number(isEnded) && ends >= (isFinal ? least : 0) && (state !== 'completed' || cancelled === 0);
    const isFailureRight = failed >= (state === 'failed' ? least : 0) && (failed <= 1 || hasRedriven);
    if (!isRight || !isFailureRight)
      world.broken(CALLBACK, `${name}, ${state}: ${done} completed, ${cancelled} cancelled, ${failed} failed`);
  }
  return new Set(callbacks.map(({ id }) => id));
}

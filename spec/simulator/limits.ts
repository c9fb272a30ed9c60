import type { ActionLimits, Delivery, Limit } from '../../db/task-store.ts';
import { Known, UNCERTAIN_MS } from './known.ts';
import type { World } from './world.ts';

const LIMITED = 'A limit is never exceeded.';

/** Use of limits, counted by the starts and ends of the handlers of all processes. */
export function limitUse(world: World) {
  const limits = new Map<string, Known<ActionLimits>>();
  /** Handlers that run, with their processes. */
  const running = new Map<Delivery, string>();
  /** Times of the starts of each pool, since limits were set. */
  const starts = new Map<string, number[]>();
  /** When each delivery was requested, and by which process. */
  const takes = new WeakMap<Delivery, { process: string; at: number; answers: number }>();
  /** When others last took a process for dead, which may have been alive. */
  const recovered = new Map<string, number>();
  /** Number of answers that limits were set. */
  let answers = 0;

  return {
    /** Whether any action has had limits. */
    hasAny: () => limits.size > 0,

    /** Called before a take. Returns a function to call with each delivery. */
    taking(process: string): (delivery: Delivery) => void {
      const take = { process, at: world.now, answers };
      return (delivery) => takes.set(delivery, take);
    },

    /** Checks the limits when a handler starts. */
    started(delivery: Delivery): void {
      const take = takes.get(delivery);
      // The places of a process that was taken for dead are given to others, although its handlers may run.
      const isCurrent = take && take.at > (recovered.get(take.process) ?? Number.NEGATIVE_INFINITY) + UNCERTAIN_MS;
      if (!isCurrent) return;
      running.set(delivery, take.process);
      const { action = '', limitKey } = delivery;
      const { value } = limits.get(action) ?? {};
      for (const key of limitKey === undefined ? [''] : ['', limitKey]) {
        const { concurrency = Infinity, rate }: Limit = (key === '' ? value?.is : value?.is.perKey) ?? {};
        const { now } = world;
        const times = [...(starts.get(`${action} ${key}`) ?? []), now];
        starts.set(`${action} ${key}`, times);
        // A thread may have had it when the limits were set.
        if (value === undefined || take.answers < value.number) continue;
        const isOf = (each: Delivery) => each.action === action && (key === '' || each.limitKey === key);
        const { length: runs } = [...running.keys()].filter(isOf);
        if (runs > concurrency) world.broken(LIMITED, `${runs} tasks of ${action} ${key} run, not ${concurrency}`);
        const { length } = rate === undefined ? [] : times.filter((time) => time > now - rate.ms);
        if (rate !== undefined && length > rate.count)
          world.broken(LIMITED, `${length} of ${action} ${key} start within ${rate.ms} ms, not ${rate.count}`);
      }
    },

    /** Called when a handler has ended, or has settled its task. */
    ended: (delivery: Delivery) => running.delete(delivery),

    /** Called when a process has died, or others take it for dead. */
    gone(process: string, isRecovered: boolean): void {
      for (const [delivery, of] of running) if (of === process) running.delete(delivery);
      if (isRecovered) recovered.set(process, world.now);
    },

    /** Called when the only process has ended. */
    settle(): void {
      for (const known of limits.values()) known.settle();
    },

    /** Called when starts that are not synced may be lost. @param areLimitsLost whether all limits are */
    lost(areLimitsLost: boolean): void {
      starts.clear();
      if (areLimitsLost) limits.clear();
    },

    /** Sets the limits of an action. */
    async set(
      action: string,
      given: ActionLimits | undefined,
      process: { isDead: boolean },
      write: () => Promise<void>,
    ): Promise<void> {
      const known = limits.get(action) ?? new Known<ActionLimits>(world);
      limits.set(action, known);
      await known.set(given ?? {}, process, async () => {
        await write();
        answers += 1;
        // Starts before that may not have been counted.
        for (const pool of starts.keys()) if (pool.startsWith(`${action} `)) starts.delete(pool);
        return answers;
      });
    },
  };
}

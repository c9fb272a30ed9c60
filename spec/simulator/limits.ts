import type { ActionLimits, Delivery, Limit } from '../../db/task-store.ts';
import { type KnownValue, knownValue, UNCERTAIN_MS } from './requests.ts';
import type { World } from './world.ts';

const LIMITED = 'A limit is never exceeded.';

/** Use of limits, counted by the starts and ends of the handlers of all processes. */
export function limitUse(world: World) {
  const limits = new Map<string, KnownValue<ActionLimits>>();
  /** Handlers that run, with their processes. */
  const running = new Map<Delivery, string>();
  /** Times of the starts of each pool, since limits were set. */
  const starts = new Map<string, number[]>();
  /** When each delivery was requested, and by which process. */
  const takes = new WeakMap<Delivery, { process: string; at: number; inForce: object | undefined }>();
  /** When others last took a process for dead, which may have been alive. */
  const recovered = new Map<string, number>();

  return {
    /** Called before a take. Returns a function to call with each delivery. */
    taking(process: string): (delivery: Delivery) => void {
      const inForce = new Map([...limits].map(([action, { value }]) => [action, value]));
      const at = world.now;
      return (delivery) => takes.set(delivery, { process, at, inForce: inForce.get(delivery.action ?? '') });
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
        const times = [...(starts.get(`${action} ${key}`) ?? []), world.now];
        starts.set(`${action} ${key}`, times);
        // A thread may have had it when the limits were set.
        if (value === undefined || take.inForce !== value) continue;
        const isOf = (each: Delivery) => each.action === action && (key === '' || each.limitKey === key);
        const { length: runs } = [...running.keys()].filter(isOf);
        if (runs > concurrency) world.broken(LIMITED, `${runs} tasks of ${action} ${key} run, not ${concurrency}`);
        const { length } = rate === undefined ? [] : times.filter((time) => time > world.now - rate.ms);
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

    /** Called when starts that are not synced may be lost. @param areLimitsLost whether all limits are */
    lost(areLimitsLost: boolean): void {
      starts.clear();
      if (areLimitsLost) limits.clear();
    },

    /** Called before the limits of an action are set. Returns a function to call after the answer. */
    setting(action: string, given: ActionLimits = {}): () => void {
      const known = limits.get(action) ?? knownValue<ActionLimits>(world);
      limits.set(action, known);
      const answered = known.request();
      return () => {
        // Starts before that may not have been counted.
        for (const pool of starts.keys()) if (pool.startsWith(`${action} `)) starts.delete(pool);
        answered(given);
      };
    },
  };
}

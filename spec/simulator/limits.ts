import type { ActionLimits, Delivery, Limit } from '../../db/task-store.ts';
import { Known, UNCERTAIN_MS } from './known.ts';
import type { World } from './world.ts';

const LIMITED = 'A limit is never exceeded.';

/** Use of limits, counted by the starts and ends of the handlers of all processes. */
export class LimitUse {
  readonly #world: World;
  readonly #limits = new Map<string, Known<ActionLimits>>();
  /** Handlers that run, with their processes. */
  readonly #running = new Map<Delivery, string>();
  /** Times of the starts of each pool, since limits were set. */
  readonly #starts = new Map<string, number[]>();
  /** When each delivery was requested, and by which process. */
  readonly #taken = new WeakMap<Delivery, { process: string; at: number; answers: number }>();
  /** When others last took a process for dead, which may have been alive. */
  readonly #recovered = new Map<string, number>();
  /** Number of answers that limits were set. */
  #answers = 0;

  constructor(world: World) {
    this.#world = world;
  }

  /** Whether any action has had limits. */
  get hasAny(): boolean {
    return this.#limits.size > 0;
  }

  /** Called before a take. Returns a function to call with each delivery. */
  taking(process: string): (delivery: Delivery) => void {
    const taken = { process, at: this.#world.now, answers: this.#answers };
    return (delivery) => this.#taken.set(delivery, taken);
  }

  /** Checks the limits when a handler starts. */
  started(delivery: Delivery): void {
    const taken = this.#taken.get(delivery);
    // The places of a process that was taken for dead are given to others, although its handlers may run.
    const isCurrent =
      taken && taken.at > (this.#recovered.get(taken.process) ?? Number.NEGATIVE_INFINITY) + UNCERTAIN_MS;
    if (!isCurrent) return;
    this.#running.set(delivery, taken.process);
    const { action = '', limitKey } = delivery;
    const { value } = this.#limits.get(action) ?? {};
    for (const key of limitKey === undefined ? [''] : ['', limitKey]) {
      const { concurrency = Infinity, rate } = (key === '' ? value?.is : value?.is.perKey) ?? ({} as Limit);
      const now = this.#world.now;
      const starts = [...(this.#starts.get(`${action} ${key}`) ?? []), now];
      this.#starts.set(`${action} ${key}`, starts);
      // A thread may have had it when the limits were set.
      if (value === undefined || taken.answers < value.number) continue;
      const isOf = (each: Delivery) => each.action === action && (key === '' || each.limitKey === key);
      const running = [...this.#running.keys()].filter(isOf).length;
      if (running > concurrency)
        this.#world.broken(LIMITED, `${running} tasks of ${action} ${key} run, not ${concurrency}`);
      const { length } = rate === undefined ? [] : starts.filter((time) => time > now - rate.ms);
      if (rate !== undefined && length > rate.count)
        this.#world.broken(LIMITED, `${length} of ${action} ${key} start within ${rate.ms} ms, not ${rate.count}`);
    }
  }

  /** Called when a handler has ended, or has settled its task. */
  ended(delivery: Delivery): void {
    this.#running.delete(delivery);
  }

  /** Called when a process has died, or others take it for dead. */
  gone(process: string, isRecovered: boolean): void {
    for (const [delivery, of] of this.#running) if (of === process) this.#running.delete(delivery);
    if (isRecovered) this.#recovered.set(process, this.#world.now);
  }

  /** Called when the only process has ended. */
  settle(): void {
    for (const known of this.#limits.values()) known.settle();
  }

  /** Called when starts that are not synced may be lost. @param areLimitsLost whether all limits are */
  lost(areLimitsLost: boolean): void {
    this.#starts.clear();
    if (areLimitsLost) this.#limits.clear();
  }

  /** Sets the limits of an action. */
  async set(
    action: string,
    limits: ActionLimits | undefined,
    process: { isDead: boolean },
    write: () => Promise<void>,
  ): Promise<void> {
    const known = this.#limits.get(action) ?? new Known<ActionLimits>(this.#world);
    this.#limits.set(action, known);
    await known.set(limits ?? {}, process, async () => {
      await write();
      this.#answers += 1;
      // Starts before that may not have been counted.
      for (const pool of this.#starts.keys()) if (pool.startsWith(`${action} `)) this.#starts.delete(pool);
      return this.#answers;
    });
  }
}

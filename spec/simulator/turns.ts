import type { Found, SearchPage } from '../../db/task-rows.ts';
import {
  type Delivery,
  NORMAL_PRIORITY,
  type QueueCounts,
  type StoredMessage,
  SUSPECT_DEATHS,
  type Taken,
  type TaskStore,
  TURN_OF_LONGEST,
} from '../../db/task-store.ts';
import type { KnownTask } from './history.ts';
import type { World } from './world.ts';

const TURNS = 'Keys take turns within a priority.';
const LONGEST = 'One of ten tasks that are taken is the one that has waited longest.';
const FIRST = 'A higher priority is taken first, except for one message of ten.';

/** Messages of another key that may be taken first: those of the present turn, and of one before it. */
const MOST_BEFORE = 2;

/** Checks the order in which the only process takes tasks. */
export function turnOracle(world: World, tasks: ReadonlyMap<string, KnownTask>) {
  /** Messages that wait alone of their key, with all that were taken since, and those of each other key. */
  const alone = new Map<KnownTask, { taken: number; before: Map<string | undefined, Set<string>> }>();
  /** Messages that were limited, which keep an earlier turn. */
  const limited = new Set<string>();
  /** Number of messages taken since the last that had waited longest. */
  let others = 0;
  /** Numbers of messages taken: all, and those with others of a higher priority behind them. */
  let [taken, overtaking] = [0, 0];

  const hasSuspects = () =>
    [...tasks.values()].some(({ state, deaths }) => {
      return (state === 'waiting' || state === 'running') && !(deaths < SUSPECT_DEATHS);
    });

  /** @param oldest when the longest waiting message became due, before the take */
  function checkLongest(deliveries: readonly Delivery[], oldest: number | undefined): void {
    const isLongest = oldest === undefined || deliveries.some(({ dueAt }) => dueAt <= oldest);
    const { length } = deliveries.filter(({ callbackOf }) => callbackOf === undefined);
    // A suspect may have waited longest.
    others = isLongest || hasSuspects() ? 0 : others + length;
    if (others >= TURN_OF_LONGEST)
      world.broken(LONGEST, `the one of ${oldest} waits while ${others} others were taken`);
  }

  function checkTurns(deliveries: readonly Delivery[], store: TaskStore): void {
    for (const [task, since] of alone) {
      const [message] = store.read([task.id], 1) as StoredMessage[];
      if (message?.state !== 'waiting') {
        alone.delete(task);
        continue;
      }
      since.taken += deliveries.length;
      for (const { id, delivery, limitKey, priority = NORMAL_PRIORITY } of deliveries) {
        const isOther = priority === task.priority && limitKey !== task.message.limitKey;
        // A released message is back in its place.
        if (!isOther || delivery > 1 || limited.has(id)) continue;
        const ids = since.before.get(limitKey)?.add(id) ?? new Set([id]);
        since.before.set(limitKey, ids);
        if (ids.size > MOST_BEFORE + Math.ceil(since.taken / TURN_OF_LONGEST))
          world.broken(TURNS, `${task.name} waits while ${ids.size} tasks of ${limitKey} were taken`);
      }
    }
  }

  function checkPriorities(deliveries: readonly Delivery[], store: TaskStore): void {
    taken += deliveries.length;
    const [first] = found(store, 'waiting');
    const task = tasks.get(first?.id ?? '');
    // A suspect waits for its turn. That it is one is known only while the deaths are.
    const isOrdinary = task !== undefined && task.deaths < SUSPECT_DEATHS;
    const priorityOf = ({ id }: Delivery) => tasks.get(id)?.priority ?? 1;
    overtaking += isOrdinary ? deliveries.filter((each) => priorityOf(each) > task.priority).length : 0;
    if (overtaking > taken / TURN_OF_LONGEST + 1)
      world.broken(FIRST, `${overtaking} of ${taken} were taken before others of a higher priority`);
  }

  return {
    /** Called when the process has ended. */
    ended(): void {
      alone.clear();
      others = 0;
    },

    /** Called when a message has begun to wait. */
    waits(task: KnownTask): void {
      const { limitKey } = task.message;
      const isOfKey = (each: KnownTask) => each.state === 'waiting' && each.message.limitKey === limitKey;
      const isAlone = limitKey !== undefined && ![...tasks.values()].some((each) => each !== task && isOfKey(each));
      if (isAlone) alone.set(task, { taken: 0, before: new Map() });
    },

    /** Called before a take. Returns a function to call at once after the take. */
    taking(store: TaskStore, hasLimits: boolean): (taken: Taken) => void {
      const { oldest } = store.counts() as QueueCounts;
      if (hasLimits) for (const { id } of found(store, 'limited')) limited.add(id);
      return ({ deliveries }) => {
        if (deliveries.length === 0 || deliveries.some(({ isSuspect }) => isSuspect)) return;
        checkLongest(deliveries, oldest);
        checkTurns(deliveries, store);
        checkPriorities(deliveries, store);
      };
    },
  };
}

/** Returns the first messages in a state of a store that answers at once. */
function found(store: TaskStore, state: 'limited' | 'waiting'): readonly Found[] {
  return (store.search({ state }, undefined, 1000) as SearchPage).found;
}

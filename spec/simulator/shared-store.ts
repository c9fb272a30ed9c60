import { EXHAUSTED } from '../../db/message-change.ts';
import type { Schedules } from '../../db/schedules.ts';
import type { SqliteStore } from '../../db/sqlite/store.ts';
import {
  type Awaitable,
  type Delivery,
  type Report,
  type Settled,
  type Settlement,
  type SettleResult,
  SUSPECT_DEATHS,
  SUSPECT_INTERVAL_MS,
  type Taken,
  type TaskSubject,
} from '../../db/task-store.ts';

interface Taking {
  max: number;
  isIdle: boolean;
  /** Whether a suspect is taken before other messages. */
  isSuspectsTurn: boolean;
}

/** The tables that several nodes share: those of one process, with the owner and the deaths of each message. */
export class SharedTables {
  readonly store: SqliteStore;
  /** Running messages by arrival. */
  readonly #owned = new Map<number, { owner: string; delivery: Delivery }>();
  readonly #deaths = new Map<number, number>();
  /** Number of each message's last delivery. */
  readonly #deliveries = new Map<number, number>();
  /** Number of the delivery that completed or acked each task. */
  readonly #completedBy = new Map<string, number>();
  readonly #ackedBy = new Map<string, number>();

  readonly #now: () => number;

  constructor(store: SqliteStore, now: () => number) {
    this.store = store;
    this.#now = now;
    store.start();
  }

  /** @returns also the number of messages that this owner was running before */
  async take(owner: string, { max, isIdle, isSuspectsTurn }: Taking): Promise<Taken & { owned: number }> {
    const owned = this.#ownedBy(owner).length;
    const { deliveries, nextRunAt } = await this.store.take(max, isIdle);
    const all = deliveries.map((delivery) => {
      this.#deliveries.set(delivery.arrival, delivery.delivery);
      return { ...delivery, isSuspect: (this.#deaths.get(delivery.arrival) ?? 0) >= SUSPECT_DEATHS };
    });
    const suspects = all.filter(({ isSuspect }) => isSuspect);
    const others = all.filter(({ isSuspect }) => !isSuspect);
    const alone = isIdle ? suspects.slice(0, 1) : [];
    const chosen = others.length === 0 || (isSuspectsTurn && suspects.length > 0) ? alone : others;
    for (const delivery of chosen) this.#owned.set(delivery.arrival, { owner, delivery });
    const rest = all.filter((delivery) => !chosen.includes(delivery));
    await this.release(rest);
    return { deliveries: chosen, nextRunAt, owned };
  }

  async settle(settled: readonly Settled[]): Promise<SettleResult> {
    const result = await this.store.settle(settled);
    for (const [index, { delivery, settlement }] of settled.entries()) {
      if (result.effects[index] === 'late') continue;
      this.#owned.delete(delivery.arrival);
      if (settlement.kind === 'complete') this.#completedBy.set(delivery.id, delivery.delivery);
      if (settlement.kind === 'ack') this.#ackedBy.set(delivery.id, delivery.delivery);
      if (settlement.kind === 'retry' || settlement.kind === 'discard') this.#deaths.delete(delivery.arrival);
    }
    return result;
  }

  /** Whether a settlement whose answer was lost counts as applied. A cancellation leaves no trace. */
  hasApplied({ delivery: { id, arrival, delivery, attempt }, settlement }: Settled): boolean {
    const { kind } = settlement;
    if (kind === 'complete') return this.store.rows.find(id) !== undefined && this.#completedBy.get(id) === delivery;
    if (kind === 'ack') return this.#ackedBy.get(id) === delivery;
    const [message] = this.store.read([id], 1);
    if (message === undefined || this.#deliveries.get(arrival) !== delivery) return false;
    const attempts = attempt - Number(kind === 'release');
    const state = kind === 'discard' ? 'failed' : kind === 'cancel' ? undefined : 'waiting';
    return message.state === state && message.attempts === attempts;
  }

  /** Returns the deliveries that an owner does not have in flight, because the answer to a take was lost. */
  lost(owner: string, held: ReadonlySet<number>): Delivery[] {
    return this.#ownedBy(owner).filter(({ arrival }) => !held.has(arrival));
  }

  release(deliveries: readonly Delivery[]): Promise<void> {
    return this.#settleAll(deliveries, () => ({ kind: 'release' }));
  }

  /** Counts the death of an owner. Returns the tasks that were dead-lettered. */
  async recover(owner: string): Promise<TaskSubject[]> {
    const lost = this.#ownedBy(owner);
    const isLast = ({ id, arrival }: Delivery) => {
      return this.#deaths.get(arrival) === SUSPECT_DEATHS && this.store.cancelRequests([id]).length === 0;
    };
    const failed = lost.filter(isLast);
    // A start that was not reported, because the limits are newer than the take, counts from the death.
    await this.store.report(
      lost.map((delivery) => ({
        delivery: { ...delivery, isRated: true },
        startedAt: this.#now(),
        progress: undefined,
      })),
    );
    await this.#settleAll(lost, (delivery) => {
      if (failed.includes(delivery)) return { kind: 'discard', reason: EXHAUSTED, failure: 'crash' };
      this.#deaths.set(delivery.arrival, (this.#deaths.get(delivery.arrival) ?? 0) + 1);
      return { kind: 'release' };
    });
    return failed;
  }

  /** Returns the owners of running messages. */
  owners(): Set<string> {
    return new Set([...this.#owned.values()].map(({ owner }) => owner));
  }

  #ownedBy(owner: string): Delivery[] {
    return [...this.#owned.values()].filter((each) => each.owner === owner).map(({ delivery }) => delivery);
  }

  async #settleAll(deliveries: readonly Delivery[], how: (delivery: Delivery) => Settlement): Promise<void> {
    if (deliveries.length > 0)
      await this.settle(deliveries.map((delivery) => ({ delivery, settlement: how(delivery) })));
  }
}

export interface SharedStoreOptions {
  tables: SharedTables;
  /** Runs a transaction at the server. @throws {DatabaseUnavailable} if no answer arrives */
  ask: <T>(run: () => Awaitable<T>) => Promise<T>;
  owner: string;
  now: () => number;
}

/**
 * Store of one node of several, with the rules of `db/postgres`: a message is settled once, messages that a node owns and
 * does not have in flight are released, and a settlement without an answer is repeated.
 */
class SharedStore {
  readonly rows;
  readonly schedules: Schedules;
  readonly isShared = true;
  readonly isDurable = true;
  readonly #options: SharedStoreOptions;
  /** Deliveries that were taken and are not settled, by arrival. */
  readonly #held = new Map<number, Delivery>();
  /** Settled deliveries without an answer. */
  readonly #unanswered = new Set<Delivery>();
  #mayOwnMore = false;
  #nextSuspectAt: number;
  /** Takes and settlements run one after another. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(options: SharedStoreOptions) {
    this.#options = options;
    this.rows = options.tables.store.rows;
    const methods = ['list', 'count', 'find', 'firstDue', 'put', 'delete', 'fire'] as const;
    this.schedules = asked(options.tables.store.schedules, methods, options) as Schedules;
    this.#nextSuspectAt = options.now() + SUSPECT_INTERVAL_MS;
  }

  start() {
    return [];
  }

  /** No task has a callback URL. */
  async takeCallbacks(): Promise<Taken> {
    return { deliveries: [], nextRunAt: undefined };
  }

  take(max: number, isIdle: boolean): Promise<Taken> {
    return this.#inTurn(async () => {
      const { owner, now } = this.#options;
      if (this.#mayOwnMore) await this.#releaseLost();
      if ([...this.#held.values()].some(({ isSuspect }) => isSuspect)) return { deliveries: [], nextRunAt: undefined };
      // Stays set if no answer arrives.
      this.#mayOwnMore = true;
      const isSuspectsTurn = now() >= this.#nextSuspectAt;
      const taken = await this.#ask((tables) => tables.take(owner, { max, isIdle, isSuspectsTurn }));
      this.#mayOwnMore = taken.owned > this.#held.size;
      for (const delivery of taken.deliveries) {
        this.#held.set(delivery.arrival, delivery);
        if (delivery.isSuspect) this.#nextSuspectAt = now() + SUSPECT_INTERVAL_MS;
      }
      return taken;
    });
  }

  settle(settled: readonly Settled[]): Promise<SettleResult> {
    return this.#inTurn(async () => {
      const repeated = settled.filter(({ delivery }) => this.#unanswered.has(delivery));
      for (const { delivery } of settled) this.#unanswered.add(delivery);
      const { effects, evicted } = await this.#ask(async (tables) => {
        const result = await tables.settle(settled);
        const applied = new Set(repeated.filter((each) => tables.hasApplied(each)));
        const isApplied = (index: number) => applied.has(settled[index] as Settled);
        return {
          effects: result.effects.map((effect, index) => (effect === 'late' && isApplied(index) ? 'applied' : effect)),
          evicted: result.evicted,
        };
      });
      for (const { delivery } of settled) {
        this.#unanswered.delete(delivery);
        if (this.#held.get(delivery.arrival) === delivery) this.#held.delete(delivery.arrival);
      }
      return { effects, evicted };
    });
  }

  recover(owner: string): Promise<TaskSubject[]> {
    return this.#ask((tables) => tables.recover(owner));
  }

  async report(running: readonly Report[]): Promise<void> {
    await this.#inTurn(() => this.#ask(({ store }) => store.report(running)));
  }

  problem() {
    return undefined;
  }

  async close() {
    return true;
  }

  async #releaseLost(): Promise<void> {
    const held = new Set(this.#held.keys());
    // Released by their numbers, because the request may arrive after the next take.
    const lost = await this.#ask((tables) => tables.lost(this.#options.owner, held));
    if (lost.length > 0) await this.#ask((tables) => tables.release(lost));
    this.#mayOwnMore = false;
  }

  #ask<T>(run: (tables: SharedTables) => Awaitable<T>): Promise<T> {
    const { ask, tables } = this.#options;
    return ask(() => run(tables));
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#last.then(run);
    this.#last = result.catch(() => {});
    return result;
  }
}

/** Methods that only run at the server. */
const ASKED = [
  ...([
    'publish',
    'publishAll',
    'runNow',
    'cancel',
    'select',
    'cancelRequests',
    'limits',
    'setLimits',
    'limitOf',
  ] as const),
  ...(['isPaused', 'setPaused', 'find', 'locate', 'read', 'deadLetterReasons', 'redrive', 'purge', 'counts'] as const),
  'deleteOldRows' as const,
];

/** Opens the store of one node. */
export function openSharedStore(options: SharedStoreOptions) {
  return Object.assign(new SharedStore(options), asked(options.tables.store, ASKED, options));
}

/** Returns methods that run at the server. Callbacks are called after the answer. */
function asked<Target, Name extends keyof Target>(
  target: Target,
  names: readonly Name[],
  { ask }: SharedStoreOptions,
): Pick<Target, Name> {
  const methods = names.map((name) => {
    const method = target[name] as (...given: unknown[]) => Awaitable<unknown>;
    const send = async (...given: unknown[]) => {
      const calls: (() => void)[] = [];
      const later = (value: unknown) =>
        typeof value === 'function' ? (...values: unknown[]) => calls.push(() => value(...values)) : value;
      const answer = await ask(() => method.apply(target, given.map(later)));
      for (const call of calls) call();
      return answer;
    };
    return [name, send];
  });
  return Object.fromEntries(methods);
}

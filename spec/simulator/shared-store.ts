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
  type Taken,
  type TaskSubject,
} from '../../db/task-store.ts';
import type { NodeStore } from './node.ts';

/** The tables that several nodes share: those of one process, with the owner and the deaths of each message. */
export class SharedTables {
  readonly store: SqliteStore;
  /** Running messages by arrival. */
  readonly #owned = new Map<number, { owner: string; delivery: Delivery }>();
  readonly #deaths = new Map<number, number>();
  /** The settlement that ended each message's last delivery, by arrival. */
  readonly #applied = new Map<number, { delivery: number; kind: Settlement['kind'] }>();
  readonly #now: () => number;

  constructor(store: SqliteStore, now: () => number) {
    this.store = store;
    this.#now = now;
    store.start();
  }

  /** @returns also the number of messages that this owner was running before */
  async take(owner: string, max: number, isIdle: boolean): Promise<Taken & { owned: number }> {
    const owned = this.#ownedBy(owner).length;
    const taken = await this.store.take(max, isIdle);
    for (const delivery of taken.deliveries) {
      this.#applied.delete(delivery.arrival);
      this.#owned.set(delivery.arrival, { owner, delivery });
    }
    return { ...taken, owned };
  }

  async settle(settled: readonly Settled[]): Promise<SettleResult> {
    const result = await this.store.settle(settled);
    for (const [index, { delivery, settlement }] of settled.entries()) {
      const { arrival } = delivery;
      if (result.effects[index] === 'late') continue;
      this.#owned.delete(arrival);
      this.#applied.set(arrival, { delivery: delivery.delivery, kind: settlement.kind });
      if (settlement.kind === 'retry' || settlement.kind === 'discard') this.#deaths.delete(arrival);
    }
    return result;
  }

  /** Whether a settlement whose answer was lost counts as applied. A cancellation leaves no trace. */
  hasApplied({ delivery: { id, arrival, delivery }, settlement: { kind } }: Settled): boolean {
    const last = this.#applied.get(arrival);
    if (last?.delivery !== delivery || last.kind !== kind) return false;
    if (kind === 'complete' || kind === 'ack') return true;
    const [message] = this.store.read([id], 1);
    return message !== undefined && (message.state === 'failed') === (kind === 'discard');
  }

  /** Returns the deliveries that an owner does not have in flight, because the answer to a take was lost. */
  lost(owner: string, held: ReadonlySet<number>): Delivery[] {
    return this.#ownedBy(owner).filter(({ arrival }) => !held.has(arrival));
  }

  /** Counts the death of an owner. Returns the tasks that were dead-lettered. */
  async recover(owner: string): Promise<TaskSubject[]> {
    const lost = this.#ownedBy(owner);
    const failed = lost.filter(({ id, arrival }) => {
      return this.#deaths.get(arrival) === SUSPECT_DEATHS && this.store.cancelRequests([id]).length === 0;
    });
    // A start that was not reported, because the limits are newer than the take, counts from the death.
    const startedAt = this.#now();
    await this.store.report(
      lost.map((delivery) => ({ delivery: { ...delivery, isRated: true }, startedAt, progress: undefined })),
    );
    await this.settleAll(lost, (delivery) => {
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

  async settleAll(deliveries: readonly Delivery[], how: (delivery: Delivery) => Settlement): Promise<void> {
    if (deliveries.length > 0)
      await this.settle(deliveries.map((delivery) => ({ delivery, settlement: how(delivery) })));
  }
}

/** Runs a transaction at the server. @throws {DatabaseUnavailable} if no answer arrives */
export type Ask = <T>(run: () => Awaitable<T>) => Promise<T>;

/**
 * Store of one node of several, with the rules of `db/postgres` but for suspects: a message is settled once, messages that a node owns and
 * does not have in flight are released, and a settlement without an answer is repeated.
 */
class SharedStore {
  readonly rows;
  readonly schedules = {} as Schedules;
  readonly isShared = true;
  readonly isDurable = true;
  readonly #tables: SharedTables;
  readonly #ask: Ask;
  readonly #owner: string;
  /** Deliveries that were taken and are not settled, by arrival. */
  readonly #held = new Map<number, Delivery>();
  /** Settled deliveries without an answer. */
  readonly #unanswered = new Set<Delivery>();
  #mayOwnMore = false;
  /** Takes and settlements run one after another. */
  #last: Promise<unknown> = Promise.resolve();

  constructor(tables: SharedTables, ask: Ask, owner: string) {
    this.#tables = tables;
    this.#ask = ask;
    this.#owner = owner;
    this.rows = tables.store.rows;
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
      if (this.#mayOwnMore) await this.#releaseLost();
      // Stays set if no answer arrives.
      this.#mayOwnMore = true;
      const taken = await this.#ask(() => this.#tables.take(this.#owner, max, isIdle));
      this.#mayOwnMore = taken.owned > this.#held.size;
      for (const delivery of taken.deliveries) this.#held.set(delivery.arrival, delivery);
      return taken;
    });
  }

  settle(settled: readonly Settled[]): Promise<SettleResult> {
    return this.#inTurn(async () => {
      const repeated = settled.filter(({ delivery }) => this.#unanswered.has(delivery));
      for (const { delivery } of settled) this.#unanswered.add(delivery);
      const result = await this.#ask(async () => {
        const { effects, evicted } = await this.#tables.settle(settled);
        const applied = repeated.filter((each) => this.#tables.hasApplied(each));
        const isApplied = (index: number) => applied.includes(settled[index] as Settled);
        return {
          effects: effects.map((each, index) => (each === 'late' && isApplied(index) ? 'applied' : each)),
          evicted,
        };
      });
      for (const { delivery } of settled) {
        this.#unanswered.delete(delivery);
        if (this.#held.get(delivery.arrival) === delivery) this.#held.delete(delivery.arrival);
      }
      return result;
    });
  }

  recover(owner: string): Promise<TaskSubject[]> {
    return this.#ask(() => this.#tables.recover(owner));
  }

  report(running: readonly Report[]): Promise<void> {
    return this.#inTurn(() => this.#ask(() => this.#tables.store.report(running)));
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
    const lost = await this.#ask(() => this.#tables.lost(this.#owner, held));
    if (lost.length > 0) await this.#ask(() => this.#tables.settleAll(lost, () => ({ kind: 'release' })));
    this.#mayOwnMore = false;
  }

  #inTurn<T>(run: () => Promise<T>): Promise<T> {
    const result = this.#last.then(run);
    this.#last = result.catch(() => {});
    return result;
  }
}

/** Opens the store of one node, whose other methods are those of the tables. */
export function openSharedStore(tables: SharedTables, ask: Ask, owner: string): NodeStore {
  const store = new SharedStore(tables, ask, owner);
  addAsked(store.schedules, tables.store.schedules, ask);
  addAsked(store, tables.store, ask);
  return store as unknown as NodeStore;
}

/** Adds the methods of an object at the server. Functions that they are given are called after the answer. */
function addAsked(node: object, target: object, ask: Ask): void {
  for (const name of Object.getOwnPropertyNames(Object.getPrototypeOf(target))) {
    if (name in node) continue;
    const send = async (...given: unknown[]) => {
      const calls: (() => void)[] = [];
      const later = (value: unknown) =>
        typeof value === 'function' ? (...values: unknown[]) => calls.push(() => value(...values)) : value;
      const method = Reflect.get(target, name) as (...values: unknown[]) => Awaitable<unknown>;
      const answer = await ask(() => method.apply(target, given.map(later)));
      for (const call of calls) call();
      return answer;
    };
    Reflect.set(node, name, send);
  }
}

import { EXHAUSTED } from '../../db/message-change.ts';
import type { SqliteStore } from '../../db/sqlite/store.ts';
import {
  type Awaitable,
  type Delivery,
  type Report,
  type Settled,
  type Settlement,
  type SettleResult,
  type StoredMessage,
  SUSPECT_DEATHS,
  type Taken,
  type TaskSubject,
} from '../../db/task-store.ts';
import type { NodeStore } from './nodes.ts';

/** Runs a transaction at the server. @throws {DatabaseUnavailable} if no answer arrives */
export type Ask = <T>(run: () => Awaitable<T>) => Promise<T>;

/**
 * The tables that several nodes share: those of one process, with the owner and the deaths of each message. They have the
 * rules of `db/postgres` but for suspects: a message is settled once, messages that a node owns and does not have in
 * flight are released, and a settlement without an answer is repeated.
 */
export function sharedTables(store: SqliteStore, now: () => number, notify: (payload: string) => void) {
  /** Running messages by arrival. */
  const running = new Map<number, { owner: string; delivery: Delivery }>();
  const deaths = new Map<number, number>();
  /** The settlement by which a node ended each message's last delivery, by arrival. */
  const settled = new Map<number, Settled>();

  const ownedBy = (owner: string) =>
    [...running.values()].flatMap((each) => (each.owner === owner ? each.delivery : []));

  /** Returns also the number of messages that the owner was running before. */
  async function take(owner: string, max: number, isIdle: boolean): Promise<Taken & { owned: number }> {
    const owned = ownedBy(owner).length;
    const taken = await store.take(max, isIdle);
    for (const delivery of taken.deliveries) {
      settled.delete(delivery.arrival);
      running.set(delivery.arrival, { owner, delivery });
    }
    return { ...taken, owned };
  }

  async function write(all: readonly Settled[]): Promise<SettleResult> {
    if (all.length === 0) return { effects: [], evicted: [] };
    const result = await store.settle(all);
    for (const [index, { delivery, settlement }] of all.entries()) {
      if (result.effects[index] === 'late') continue;
      running.delete(delivery.arrival);
      if (settlement.kind === 'retry' || settlement.kind === 'discard') deaths.delete(delivery.arrival);
    }
    return result;
  }

  async function settle(all: readonly Settled[]): Promise<SettleResult> {
    const { effects, evicted } = await write(all);
    for (const [index, each] of all.entries()) if (effects[index] !== 'late') settled.set(each.delivery.arrival, each);
    return { effects: effects.map((each, at) => (hasApplied(all[at] as Settled) ? 'applied' : each)), evicted };
  }

  /** Whether a settlement has been applied, perhaps before it was repeated. A cancellation leaves no trace. */
  function hasApplied({ delivery: { id, arrival, delivery }, settlement: { kind } }: Settled): boolean {
    const last = settled.get(arrival);
    if (last?.delivery.delivery !== delivery || last.settlement.kind !== kind) return false;
    if (kind === 'complete' || kind === 'ack') return true;
    const [message] = store.read([id], 1) as readonly StoredMessage[];
    return message !== undefined && (message.state === 'failed') === (kind === 'discard');
  }

  /** Counts the death of an owner. Returns the tasks that were dead-lettered. */
  async function recover(owner: string): Promise<TaskSubject[]> {
    const lost = ownedBy(owner);
    const failed = lost.filter(({ id, arrival }) => {
      return deaths.get(arrival) === SUSPECT_DEATHS && store.cancelRequests([id]).length === 0;
    });
    // A start that was not reported, because the limits are newer than the take, counts from the death.
    const started = { startedAt: now(), progress: undefined };
    await store.report(lost.map((delivery) => ({ delivery: { ...delivery, isRated: true }, ...started })));
    const settlementOf = (delivery: Delivery): Settlement =>
      failed.includes(delivery) ? { kind: 'discard', reason: EXHAUSTED, failure: 'crash' } : { kind: 'release' };
    await write(lost.map((delivery) => ({ delivery, settlement: settlementOf(delivery) })));
    for (const each of lost) if (!failed.includes(each)) deaths.set(each.arrival, (deaths.get(each.arrival) ?? 0) + 1);
    return failed;
  }

  /** Opens the store of a node. */
  function open(ask: Ask, owner: string): NodeStore {
    /** Deliveries that were taken and whose settlement has no answer, by arrival. */
    const held = new Map<number, Delivery>();
    /** Whether the node may own messages that it does not hold, because the answer to a take was lost. */
    let mayOwnMore = false;
    /** Takes, settlements and reports run one after another. */
    let last: Promise<unknown> = Promise.resolve();
    const inTurn = <T>(run: () => Promise<T>): Promise<T> => {
      const result = last.then(run);
      last = result.catch(() => {});
      return result;
    };
    const releaseLost = async () => {
      const known = new Set(held.keys());
      const lost = await ask(() => ownedBy(owner).filter(({ arrival }) => !known.has(arrival)));
      // Released by their numbers, because the request may arrive after the next take.
      await ask(() => write(lost.map((delivery) => ({ delivery, settlement: { kind: 'release' } }))));
    };
    const takeNext = async (max: number, isIdle: boolean): Promise<Taken> => {
      if (mayOwnMore) await releaseLost();
      // Stays set if no answer arrives.
      mayOwnMore = true;
      const { owned, ...taken } = await ask(() => take(owner, max, isIdle));
      mayOwnMore = owned > held.size;
      for (const delivery of taken.deliveries) held.set(delivery.arrival, delivery);
      return taken;
    };
    const settleAll = async (all: readonly Settled[]): Promise<SettleResult> => {
      const result = await ask(() => settle(all));
      for (const { delivery } of all) if (held.get(delivery.arrival) === delivery) held.delete(delivery.arrival);
      return result;
    };
    const pause = async (isPaused: boolean, at?: number) => {
      await store.setPaused(isPaused, at);
      notify('{"from":"","topic":"pause"}');
    };
    const own = {
      ...{ rows: store.rows, schedules: asked(store.schedules, ask, {}), isShared: true, isDurable: true },
      take: (max: number, isIdle: boolean) => inTurn(() => takeNext(max, isIdle)),
      settle: (all: readonly Settled[]) => inTurn(() => settleAll(all)),
      report: (reports: readonly Report[]) => inTurn(() => ask(() => store.report(reports))),
      setPaused: (isPaused: boolean, at?: number) => ask(() => pause(isPaused, at)),
      recover: (dead: string) => ask(() => recover(dead)),
      ...{ start: () => [], problem: () => undefined, close: async () => true },
      // No task has a callback URL.
      takeCallbacks: async () => ({ deliveries: [], nextRunAt: undefined }),
    };
    return asked(store, ask, own) as unknown as NodeStore;
  }

  /** Returns the owners of running messages. */
  const owners = () => new Set([...running.values()].map(({ owner }) => owner));
  return { open, owners };
}

/** Adds the methods of an object at the server. Functions that they are given are called after the answer. */
function asked<T extends object>(target: T, ask: Ask, own: object): T {
  const all = [...Object.getOwnPropertyNames(Object.getPrototypeOf(target)), ...Object.keys(target)];
  const names = all.filter((name) => !(name in own));
  const methods = names.map((name) => {
    const send = async (...given: unknown[]) => {
      const calls: (() => void)[] = [];
      const later = (value: unknown) =>
        typeof value === 'function' ? (...values: unknown[]) => calls.push(() => value(...values)) : value;
      const method = Reflect.get(target, name) as (...values: unknown[]) => Awaitable<unknown>;
      const answer = await ask(() => method.apply(target, given.map(later)));
      for (const call of calls) call();
      return answer;
    };
    return [name, send];
  });
  return Object.assign(own, Object.fromEntries(methods));
}

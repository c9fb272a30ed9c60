import { EXHAUSTED } from '../../db/message-change.ts';
import type { DirectOptions, Query } from '../../db/postgres/database.ts';
import type { TokenRow } from '../../db/postgres/tokens.ts';
import { SqliteStore } from '../../db/sqlite/store.ts';
import type * as db from '../../db/task-store.ts';
import { DatabaseUnavailable, SUSPECT_DEATHS } from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { Disk } from './disk.ts';
import type { NodeServer, NodeStore, ServerFaults } from './nodes.ts';
import type { Time } from './time.ts';
import type { Setting } from './world.ts';

interface Listener {
  node: number;
  /** When the last notification arrives, because a connection keeps their order. */
  lastAt: number;
  isListening: boolean;
  clock: Clock;
  options: DirectOptions;
}

const TIME_LIMIT_MS = 2000;

/**
 * The server that several nodes share, with the tables `leases`, `tokens` and `nodes` and notifications. Statements
 * are known by their first words; the tables of tasks have a store of their own. Connections lose requests and answers,
 * and end with a delay that the nodes do not know.
 */
export function simulatedServer(time: Time, faults: ServerFaults, { bounds }: Setting): NodeServer {
  const { random } = faults;
  const disk = new Disk(random);
  const store = new SqliteStore({
    ...{ dataDir: disk.folder, driver: 'memory', bounds },
    now: () => time.now,
    newId: () => random.uuid(),
    excessRows: async () => 0,
  });
  store.start();
  /** Difference of the server's clock and that of the nodes. */
  const skewMs = random.between(-3_600_000, 3_600_000);
  const now = () => time.now + skewMs;
  const tokens = new Map<string, TokenRow>();
  const beats = new Map<string, number>();
  const listeners = new Set<Listener>();
  const lease = { owner: '', epoch: 0, expiresAt: 0, state: null as string | null };

  const notify = (payload: string) => {
    for (const listener of listeners) if (listener.isListening) receive(listener, payload);
  };
  const tables = sharedTables(store, () => time.now, notify);
  const revoke = (id: string) => {
    if (tokens.delete(id)) notify(JSON.stringify({ from: '', topic: 'revoked', id }));
  };
  // biome-ignore lint/suspicious/noExplicitAny: parameters of statements have various types.
  type Run = (values: any[], listener: Listener | undefined) => unknown;
  const statements = Object.entries<Run>({
    'DO $$ BEGIN EXECUTE': (_, listener) => void Object.assign(listener ?? {}, { isListening: true }),
    'SELECT pg_notify': ([payloads]) => void payloads.forEach(notify),
    'UPDATE leases SET owner': ([owner, durationMs, state]) => {
      const isOwner = lease.owner === owner;
      if (lease.expiresAt > now() && !isOwner) return [];
      Object.assign(lease, { owner, expiresAt: now() + durationMs });
      if (isOwner) lease.state = state ?? lease.state;
      else lease.epoch += 1;
      return [{ epoch: lease.epoch, state: lease.state }];
    },
    'SELECT epoch, state': () => [{ epoch: lease.epoch, state: lease.state }],
    'WITH evicted': ([id, keyId, expiresAt, maxPerKey, hasRoom]) => {
      const own = [...tokens.values()].filter((token) => token.keyId === keyId);
      const evicted = own.slice(0, Math.max(0, own.length - maxPerKey + 1)).map((token) => token.id);
      for (const each of evicted) revoke(each);
      const isAdded = hasRoom === true || evicted.length > 0;
      if (isAdded) tokens.set(id, { id, keyId, expiresAt } as TokenRow);
      return [{ isAdded, evicted }];
    },
    'WITH revoked': ([id]) => revoke(id),
    'SELECT id, key_id': ([id]) => [tokens.get(id)].filter((token) => token !== undefined),
    'SELECT id FROM tokens': ([ids]) => (ids as string[]).flatMap((id) => (tokens.has(id) ? { id } : [])),
    'DELETE FROM tokens': ([before]) => {
      for (const { id, expiresAt } of tokens.values()) if (expiresAt < before) tokens.delete(id);
    },
    'SELECT count(*)': () => [{ count: tokens.size }],
    'WITH beat': ([id, counter]) => {
      const rows = [...beats].map(([node, count]) => ({ id: node, counter: count }));
      beats.set(id, counter);
      return rows;
    },
    'DELETE FROM nodes': ([id, counter]) => (beats.get(id) === counter && beats.delete(id) ? [{ id }] : []),
    'SELECT owner FROM': () => [...tables.owners()].flatMap((owner) => (beats.has(owner) ? [] : { owner })),
  });

  // Mostly short, so that some answers overtake others.
  function latency(): number {
    const { random } = faults;
    const latencyMs = Math.max(5, faults.latencyMs);
    return random.below((random.chance(0.3) ? latencyMs : Math.min(6, latencyMs)) + 1);
  }

  /** Passes a notification on, in the order of its connection unless the server is disordered. */
  function receive(listener: Listener, payload: string): void {
    const { clock, options } = listener;
    const deliver = () => options.onNotification?.(payload);
    if (faults.isDisordered && !payload.includes('"revoked"')) {
      const copies = faults.random.pick([1, 1, 2]);
      for (let copy = 0; copy < copies; copy += 1) clock.timer(faults.random.below(300), deliver);
      return;
    }
    listener.lastAt = Math.max(time.now + latency(), listener.lastAt);
    clock.timer(listener.lastAt - time.now, deliver);
  }

  /** Sends a request. Fails after the time limit if the request, or its answer, is lost. */
  function ask<T>(clock: Clock, limitMs: number, run: () => db.Awaitable<T>, listener?: Listener): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const isConnected = () => faults.isUp && (listener === undefined || listeners.has(listener));
    const isLost = () => !isConnected() || faults.random.chance(faults.lossRate);
    const cancelLimit = clock.timer(limitMs, () => reject(new DatabaseUnavailable('Query read timeout')));
    // The server runs a request that has reached it, whatever happens to its client.
    time.timer(latency(), async () => {
      if (isLost()) return;
      const answer = await Promise.resolve()
        .then(run)
        .catch((error: Error) => error);
      if (isLost()) return;
      clock.timer(latency(), () => {
        if (!isConnected()) return;
        cancelLimit();
        if (answer instanceof Error) reject(answer);
        else resolve(answer);
      });
    });
    return promise;
  }

  function queryOn(clock: Clock, defaultLimitMs: number, listener?: Listener): Query {
    return async <Row>(text: string, values: readonly unknown[] = [], limitMs = defaultLimitMs) => {
      const run = statements.find(([start]) => text.startsWith(start))?.[1];
      if (run === undefined) throw new Error(`unknown statement: ${text}`);
      return ask(clock, limitMs, () => (run([...values], listener) ?? []) as Row[], listener);
    };
  }

  function cut(node?: number): void {
    for (const listener of listeners) {
      if (node !== undefined && listener.node !== node) continue;
      const { clock, options, lastAt } = listener;
      listeners.delete(listener);
      const delayMs = Math.max(faults.random.below(500), lastAt - time.now);
      clock.timer(delayMs, () => options.onLost('the connection was lost'));
    }
  }

  return {
    ...{ cut, end: cut },
    connector: (node, clock) => async (_url, options) => {
      await clock.sleep(latency());
      if (!faults.isUp) throw new Error('the server cannot be reached');
      const listener = { node, clock, options, lastAt: 0, isListening: false };
      listeners.add(listener);
      return {
        rows: queryOn(clock, options.timeLimitMs, listener),
        destroy: () => void listeners.delete(listener),
      };
    },
    database: (_node, clock) => ({ query: queryOn(clock, TIME_LIMIT_MS) }),
    openStore: (_node, owner, clock) => tables.open((run) => ask(clock, TIME_LIMIT_MS, run), owner),
    hasToken: (id) => tokens.has(id),
    store: () => store,
    read: () => disk.readTables(store),
    close() {
      void store.close();
      disk.remove();
    },
  };
}

type Ask = <T>(run: () => db.Awaitable<T>) => Promise<T>;

/**
 * The tables that several nodes share: those of one process, with the owner and the deaths of each message. They have the
 * rules of `db/postgres` but for suspects: a message is settled once, messages that a node owns and does not have in
 * flight are released, and a settlement without an answer is repeated.
 */
function sharedTables(store: SqliteStore, now: () => number, notify: (payload: string) => void) {
  const running = new Map<number, { owner: string; delivery: db.Delivery }>();
  const deaths = new Map<number, number>();
  /** The settlement by which a node ended each message's last delivery, by arrival. */
  const settled = new Map<number, db.Settled>();

  const ownedBy = (owner: string) =>
    [...running.values()].flatMap((each) => (each.owner === owner ? each.delivery : []));

  async function take(owner: string, max: number, isIdle: boolean): Promise<db.Taken & { owned: number }> {
    const owned = ownedBy(owner).length;
    const taken = await store.take(max, isIdle);
    for (const delivery of taken.deliveries) {
      settled.delete(delivery.arrival);
      running.set(delivery.arrival, { owner, delivery });
    }
    return { ...taken, owned };
  }

  async function write(all: readonly db.Settled[]): Promise<db.SettleResult> {
    if (all.length === 0) return { effects: [], evicted: [] };
    const result = await store.settle(all);
    for (const [index, { delivery, settlement }] of all.entries()) {
      if (result.effects[index] === 'late') continue;
      running.delete(delivery.arrival);
      if (settlement.kind === 'retry' || settlement.kind === 'discard') deaths.delete(delivery.arrival);
    }
    return result;
  }

  async function settle(all: readonly db.Settled[]): Promise<db.SettleResult> {
    const { effects, evicted } = await write(all);
    for (const [index, each] of all.entries()) if (effects[index] !== 'late') settled.set(each.delivery.arrival, each);
    return { effects: effects.map((each, at) => (hasApplied(all[at] as db.Settled) ? 'applied' : each)), evicted };
  }

  /** Whether a settlement has been applied, perhaps before it was repeated. A cancellation leaves no trace. */
  function hasApplied({ delivery: { id, arrival, delivery }, settlement: { kind } }: db.Settled): boolean {
    const last = settled.get(arrival);
    if (last?.delivery.delivery !== delivery || last.settlement.kind !== kind) return false;
    if (kind === 'complete' || kind === 'ack') return true;
    const [message] = store.reads.read([id], 1) as readonly db.StoredMessage[];
    return message !== undefined && (message.state === 'failed') === (kind === 'discard');
  }

  /** Counts the death of an owner. Returns the tasks that were dead-lettered. */
  async function recover(owner: string): Promise<db.TaskSubject[]> {
    const lost = ownedBy(owner);
    const failed = lost.filter(({ id, arrival }) => {
      return deaths.get(arrival) === SUSPECT_DEATHS && store.cancelRequests([id]).length === 0;
    });
    // A start that was not reported, because the limits are newer than the take, counts from the death.
    const started = { startedAt: now(), progress: undefined };
    await store.report(lost.map((delivery) => ({ delivery: { ...delivery, isRated: true }, ...started })));
    const settlementOf = (delivery: db.Delivery): db.Settlement =>
      failed.includes(delivery) ? { kind: 'discard', reason: EXHAUSTED, failure: 'crash' } : { kind: 'release' };
    await write(lost.map((delivery) => ({ delivery, settlement: settlementOf(delivery) })));
    for (const each of lost) if (!failed.includes(each)) deaths.set(each.arrival, (deaths.get(each.arrival) ?? 0) + 1);
    return failed;
  }

  function open(ask: Ask, owner: string): NodeStore {
    /** Deliveries that were taken and whose settlement has no answer, by arrival. */
    const held = new Map<number, db.Delivery>();
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
      const lost = await ask(() => ownedBy(owner).filter(({ arrival }) => !held.has(arrival)));
      // Released by their numbers, because the request may arrive after the next take.
      await ask(() => write(lost.map((delivery) => ({ delivery, settlement: { kind: 'release' } }))));
    };
    return asked<Partial<NodeStore>>(store, ask, {
      ...{ schedules: asked(store.schedules, ask), isShared: true, isDurable: true },
      reads: asked(store.reads, ask, { rows: store.reads.rows }),
      take: (max, isIdle) =>
        inTurn(async () => {
          if (mayOwnMore) await releaseLost();
          // Stays set if no answer arrives.
          mayOwnMore = true;
          const { owned, ...taken } = await ask(() => take(owner, max, isIdle));
          mayOwnMore = owned > held.size;
          for (const delivery of taken.deliveries) held.set(delivery.arrival, delivery);
          return taken;
        }),
      settle: (all) =>
        inTurn(async () => {
          const result = await ask(() => settle(all));
          for (const { delivery } of all) if (held.get(delivery.arrival) === delivery) held.delete(delivery.arrival);
          return result;
        }),
      report: (reports) => inTurn(() => ask(() => store.report(reports))),
      setPaused: (isPaused, at) =>
        ask(() => store.setPaused(isPaused, at).then(() => notify('{"from":"","topic":"pause"}'))),
      recover: (dead) => ask(() => recover(dead)),
      ...{ start: () => [], problem: () => undefined, close: async () => true },
      // No task has a callback URL.
      takeCallbacks: async () => ({ deliveries: [], nextRunAt: undefined }),
    }) as NodeStore;
  }

  return { open, owners: () => new Set([...running.values()].map(({ owner }) => owner)) };
}

/** Adds the methods of an object at the server. Functions that they are given are called after the answer. */
function asked<T extends object>(target: T, ask: Ask, own: Partial<T> = {}): T {
  const get = (_: object, name: string | symbol) => {
    if (name in own || !(name in target)) return Reflect.get(own, name);
    const method = Reflect.get<object, string | symbol>(target, name);
    return async (...given: unknown[]) => {
      const calls: (() => void)[] = [];
      const later = (value: unknown) =>
        typeof value === 'function' ? (...values: unknown[]) => calls.push(() => value(...values)) : value;
      const answer = await ask(() => method.apply(target, given.map(later)));
      for (const call of calls) call();
      return answer;
    };
  };
  return new Proxy(own, { get }) as T;
}

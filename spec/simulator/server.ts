import type { DirectOptions, Query } from '../../db/postgres/database.ts';
import type { TokenRow } from '../../db/postgres/tokens.ts';
import { SqliteStore } from '../../db/sqlite/store.ts';
import { type Awaitable, DatabaseUnavailable, KeyReused, QueueFull } from '../../db/task-store.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { Disk } from './disk.ts';
import type { NodeServer } from './nodes.ts';
import type { SeededRandom } from './random.ts';
import { sharedTables } from './shared-store.ts';
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
export function simulatedServer(time: Time, random: SeededRandom, { bounds }: Setting): NodeServer {
  const faults: NodeServer['faults'] = { isUp: true, lossRate: 0, latencyMs: 5, isDisordered: false, random };
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
  /** Heartbeats of the nodes. */
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
  type Run = (values: any[], listener: Listener | undefined) => object[];
  /** Statements by the start of their text. */
  const statements = Object.entries<Run>({
    'DO $$ BEGIN EXECUTE': (_, listener) => {
      if (listener !== undefined) listener.isListening = true;
      return [];
    },
    'SELECT pg_notify': ([payloads]) => {
      for (const payload of payloads) notify(payload);
      return [];
    },
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
    'WITH revoked': ([id]) => {
      revoke(id);
      return [];
    },
    'SELECT id, key_id': ([id]) => [tokens.get(id)].filter((token) => token !== undefined),
    'SELECT id FROM tokens': ([ids]) => (ids as string[]).flatMap((id) => (tokens.has(id) ? { id } : [])),
    'DELETE FROM tokens': ([before]) => {
      for (const { id, expiresAt } of tokens.values()) if (expiresAt < before) tokens.delete(id);
      return [];
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
    const { random, latencyMs } = faults;
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
  function ask<T>(clock: Clock, limitMs: number, run: () => Awaitable<T>, listener?: Listener): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const isConnected = () => faults.isUp && (listener === undefined || listeners.has(listener));
    const isLost = () => !isConnected() || faults.random.chance(faults.lossRate);
    const cancelLimit = clock.timer(limitMs, () => reject(new DatabaseUnavailable('Query read timeout')));
    // The server runs a request that has reached it, whatever happens to its client.
    time.timer(latency(), async () => {
      if (isLost()) return;
      const refused = (error: unknown) => {
        if (error instanceof QueueFull || error instanceof KeyReused) return error;
        throw error;
      };
      const answer = await Promise.resolve().then(run).catch(refused);
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
      return ask(clock, limitMs, () => run([...values], listener), listener) as Promise<Row[]>;
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
    ...{ faults, cut, end: cut },
    repair: () => Object.assign(faults, { isUp: true, lossRate: 0, latencyMs: 5, isDisordered: false }),
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
    isPaused: () => store.isPaused(),
    counts: () => store.counts(),
    read: () => disk.readTables(store),
    close() {
      void store.close();
      disk.remove();
    },
  };
}

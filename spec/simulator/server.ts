import { DatabaseUnavailable } from '../../db/database-unavailable.ts';
import type { PostgresDatabase, Query } from '../../db/postgres/database.ts';
import type { DirectOptions } from '../../db/postgres/direct-connection.ts';
import type { TokenRow } from '../../db/postgres/tokens.ts';
import { SqliteStore } from '../../db/sqlite/store.ts';
import { type Awaitable, KeyReused, QueueFull } from '../../db/task-store.ts';
import type { Connect } from '../../main/nodes/link.ts';
import type { Clock } from '../../workers/shared/clock.ts';
import { Disk, readTables, unfinished } from './disk.ts';
import { NodeServer } from './node.ts';
import type { SeededRandom } from './random.ts';
import { type Ask, openSharedStore, SharedTables } from './shared-store.ts';
import type { Setting } from './steps.ts';
import type { SimulatedTime } from './time.ts';

interface Listener {
  node: number;
  /** When the last notification arrives, because a connection keeps their order. */
  lastAt: number;
  isListening: boolean;
  clock: Clock;
  options: DirectOptions;
}

/** A pooled connection while it is used, which may hold advisory locks. */
interface Session {
  node: number;
  isOpen: boolean;
}

/** Statements by the start of their text. */
type Run = (values: readonly unknown[], listener: Listener | undefined, session: Session | undefined) => object[];

const CONNECTION_LOST = 'the connection was lost';

/**
 * The server that several nodes share, with the tables `leases`, `tokens` and `nodes`, notifications and locks. Statements
 * are known by their first words; the tables of tasks have a store of their own. Connections lose requests and answers,
 * and end with a delay that the nodes do not know.
 */
export class SimulatedServer extends NodeServer {
  /** Difference of the server's clock and that of the nodes. */
  skewMs: number;
  readonly tokens = new Map<string, TokenRow>();
  readonly tables: SharedTables;
  readonly #disk: Disk;
  readonly #time: SimulatedTime;
  /** Heartbeats of the nodes. */
  readonly #beats = new Map<string, number>();
  readonly #sessions = new Set<Session>();
  /** Holders of the advisory locks, by purpose. */
  readonly #locks = new Map<string, Session>();
  readonly #lease = { owner: '', epoch: 0, expiresAt: 0, state: null as string | null };
  readonly #listeners = new Set<Listener>();
  readonly #statements: readonly [start: string, run: Run][];

  constructor(time: SimulatedTime, random: SeededRandom, { maxLength, maxKeys }: Setting) {
    super(random);
    this.#time = time;
    this.#disk = new Disk(random);
    const store = new SqliteStore({
      dataDir: this.#disk.folder,
      driver: 'memory',
      bounds: { maxLength, maxBytes: 2 ** 40, maxKeys },
      now: () => time.now,
      newId: () => random.uuid(),
      excessRows: async () => 0,
    });
    this.tables = new SharedTables(store, () => time.now);
    this.skewMs = random.between(-3_600_000, 3_600_000);
    const lease = this.#lease;
    const now = () => time.now + this.skewMs;
    const revoke = (id: string) => {
      if (this.tokens.delete(id)) this.#notify(JSON.stringify({ from: '', topic: 'revoked', id }));
    };
    this.#statements = Object.entries<Run>({
      'DO $$ BEGIN EXECUTE': (_, listener) => {
        if (listener !== undefined) listener.isListening = true;
        return [];
      },
      'SELECT pg_notify': ([payloads]) => {
        for (const payload of payloads as string[]) this.#notify(payload);
        return [];
      },
      'UPDATE leases SET owner': ([owner, durationMs, state]) => {
        const isOwner = lease.owner === owner;
        if (lease.expiresAt > now() && !isOwner) return [];
        Object.assign(lease, { owner, expiresAt: now() + (durationMs as number) });
        if (isOwner) lease.state = (state as string | null) ?? lease.state;
        else lease.epoch += 1;
        return [{ epoch: lease.epoch, state: lease.state }];
      },
      'SELECT epoch, state': () => [{ epoch: lease.epoch, state: lease.state }],
      'WITH evicted': ([id, keyId, expiresAt, maxPerKey, hasRoom]) => {
        const own = [...this.tokens.values()].filter((token) => token.keyId === keyId);
        const evicted = own.slice(0, Math.max(0, own.length - (maxPerKey as number) + 1)).map((token) => token.id);
        for (const each of evicted) revoke(each);
        const isAdded = hasRoom === true || evicted.length > 0;
        if (isAdded) this.tokens.set(id as string, { id, keyId, expiresAt } as TokenRow);
        return [{ isAdded, evicted }];
      },
      'WITH revoked': ([id]) => {
        revoke(id as string);
        return [];
      },
      'SELECT id, key_id': ([id]) => [this.tokens.get(id as string)].filter((token) => token !== undefined),
      'SELECT id FROM tokens': ([ids]) => (ids as string[]).filter((id) => this.tokens.has(id)).map((id) => ({ id })),
      'DELETE FROM tokens': ([before]) => {
        const expired = [...this.tokens.values()].filter(({ expiresAt }) => expiresAt < (before as number));
        for (const { id } of expired) this.tokens.delete(id);
        return [];
      },
      'SELECT count(*)': () => [{ count: this.tokens.size }],
      'WITH beat': ([id, counter]) => {
        const rows = [...this.#beats].map(([node, beats]) => ({ id: node, counter: beats }));
        this.#beats.set(id as string, counter as number);
        return rows;
      },
      'DELETE FROM nodes': ([id, counter]) =>
        this.#beats.get(id as string) === counter && this.#beats.delete(id as string) ? [{ id }] : [],
      'SELECT owner FROM': () =>
        [...this.tables.owners()].flatMap((owner) => (this.#beats.has(owner) ? [] : [{ owner }])),
      'SELECT pg_try_advisory_lock': ([purpose], _, session) => {
        const acquired = session?.isOpen === true && !this.#locks.has(purpose as string);
        if (acquired) this.#locks.set(purpose as string, session);
        return [{ acquired }];
      },
      'SELECT pg_advisory_unlock': ([purpose]) => {
        this.#locks.delete(purpose as string);
        return [];
      },
    });
  }

  /** Returns how a node opens connections. */
  connector(node: number, clock: Clock): Connect {
    return async (_url, options) => {
      await clock.sleep(this.#latency());
      if (!this.isUp) throw new Error('the server cannot be reached');
      const listener = { node, clock, options, lastAt: 0, isListening: false };
      this.#listeners.add(listener);
      return {
        rows: this.#queryOn(clock, options.timeLimitMs, listener),
        destroy: () => void this.#listeners.delete(listener),
      };
    };
  }

  /** Returns a connection pool of a node. */
  database(node: number, clock: Clock): Pick<PostgresDatabase, 'query' | 'session'> {
    return {
      query: this.#queryOn(clock, 2000),
      session: async (work) => {
        const session = { node, isOpen: true };
        this.#sessions.add(session);
        return await work(this.#queryOn(clock, 2000, undefined, session)).finally(() => this.#close(session));
      },
    };
  }

  /** Opens the store of a node. */
  openStore(_node: number, owner: string, clock: Clock) {
    const ask: Ask = (run) => this.#ask(clock, 2000, undefined, run);
    return openSharedStore(this.tables, ask, owner);
  }

  hasToken(id: string): boolean {
    return this.tokens.has(id);
  }

  read() {
    const { store } = this.tables;
    return { ...readTables(store, this.#disk), counts: store.counts() };
  }

  unfinished(): number {
    return unfinished(this.tables.store.counts());
  }

  /** Removes all tables. */
  close(): void {
    void this.tables.store.close();
    this.#disk.remove();
  }

  override repair(): void {
    super.repair();
    this.latencyMs = 5;
  }

  /** Ends connections, all or those of a node. */
  cut(node?: number): void {
    for (const session of this.#sessions) if (node === undefined || session.node === node) this.#close(session);
    for (const listener of this.#listeners) {
      if (node !== undefined && listener.node !== node) continue;
      const { clock, options, lastAt } = listener;
      this.#listeners.delete(listener);
      const delayMs = Math.max(this.random.below(500), lastAt - this.#time.now);
      clock.timer(delayMs, () => options.onLost(CONNECTION_LOST));
    }
  }

  end(node: number): void {
    this.cut(node);
  }

  #close(session: Session): void {
    session.isOpen = false;
    this.#sessions.delete(session);
    for (const [purpose, holder] of this.#locks) if (holder === session) this.#locks.delete(purpose);
  }

  /** Passes a notification on, in the order of its connection unless the server is disordered. */
  #receive(listener: Listener, payload: string): void {
    const { clock, options } = listener;
    const deliver = () => options.onNotification?.(payload);
    if (this.isDisordered && !payload.includes('"revoked"')) {
      for (let copies = this.random.pick([1, 1, 2]); copies > 0; copies -= 1) {
        clock.timer(this.random.below(300), deliver);
      }
      return;
    }
    listener.lastAt = Math.max(this.#time.now + this.#latency(), listener.lastAt);
    clock.timer(listener.lastAt - this.#time.now, deliver);
  }

  #queryOn(clock: Clock, defaultLimitMs: number, listener?: Listener, session?: Session): Query {
    return async <Row>(text: string, values: readonly unknown[] = [], limitMs = defaultLimitMs) => {
      const run = this.#statements.find(([start]) => text.startsWith(start))?.[1];
      if (run === undefined) throw new Error(`unknown statement: ${text}`);
      return this.#ask(clock, limitMs, listener, () => run(values, listener, session)) as Promise<Row[]>;
    };
  }

  /** Sends a request. Fails after the time limit if the request, or its answer, is lost. */
  #ask<T>(clock: Clock, limitMs: number, listener: Listener | undefined, run: () => Awaitable<T>): Promise<T> {
    const { promise, resolve, reject } = Promise.withResolvers<T>();
    const isConnected = () => this.isUp && (listener === undefined || this.#listeners.has(listener));
    const isLost = () => !isConnected() || this.random.chance(this.lossRate);
    const cancelLimit = clock.timer(limitMs, () => reject(new DatabaseUnavailable('Query read timeout')));
    // The server runs a request that has reached it, whatever happens to its client.
    this.#time.timer(this.#latency(), async () => {
      if (isLost()) return;
      const answer = await answerOf(run);
      if (isLost()) return;
      clock.timer(this.#latency(), () => {
        if (!isConnected()) return;
        cancelLimit();
        answer(resolve, reject);
      });
    });
    return promise;
  }

  #notify(payload: string): void {
    for (const listener of this.#listeners) if (listener.isListening) this.#receive(listener, payload);
  }

  #latency(): number {
    // Mostly short, so that some answers overtake others.
    return this.random.below((this.random.chance(0.3) ? this.latencyMs : Math.min(6, this.latencyMs)) + 1);
  }
}

/** Runs a transaction, and returns how its answer is passed on. */
async function answerOf<T>(
  run: () => Awaitable<T>,
): Promise<(resolve: (value: T) => void, reject: (error: unknown) => void) => void> {
  try {
    const value = await run();
    return (resolve) => resolve(value);
  } catch (error) {
    if (!(error instanceof QueueFull || error instanceof KeyReused)) throw error;
    return (_, reject) => reject(error);
  }
}

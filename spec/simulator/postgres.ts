import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { PostgresDatabase } from '../../db/postgres/database.ts';
import { connectDirectly } from '../../db/postgres/direct-connection.ts';
import { migratePostgres } from '../../db/postgres/migrate.ts';
import { PostgresStore, WRITE_CONNECTIONS } from '../../db/postgres/store.ts';
import type { StoredMessage } from '../../db/task-store.ts';
import type { Connect } from '../../main/nodes/link.ts';
import { type Clock, systemClock } from '../../workers/shared/clock.ts';
import { NodeServer } from './node.ts';
import { NodesSimulation, nodeSetting } from './nodes.ts';
import { SeededRandom } from './random.ts';
import type { SimulationOptions, SimulationResult } from './simulation.ts';
import type { Setting } from './steps.ts';
import type { Time } from './time.ts';
import { createWorld } from './world.ts';

const TIME_LIMIT_MS = 2000;
/** Interval at which a wait looks whether it is over. */
const LOOK_MS = 20;
/** Factor of all waits and handlers, because this time is real. */
const PACE = 0.1;

const realTime: Time = {
  get now() {
    return systemClock.now();
  },
  timer: (delayMs, run) => systemClock.timer(delayMs, run),
  async pass(ms, isOver = () => false) {
    const end = systemClock.now() + ms;
    do await systemClock.sleep(Math.min(LOOK_MS, end - systemClock.now()));
    while (systemClock.now() < end && !isOver());
  },
};

/** Runs nodes on a real server, in a schema of their own. The same seed has the same steps, but not the same history. */
export async function simulateOnPostgres(options: SimulationOptions, url: string): Promise<SimulationResult> {
  const random = new SeededRandom(`nodes ${options.seed}`);
  const setting = nodeSetting(random, options.seed);
  const server = new RealServer(url, setting, random);
  await server.open();
  const world = createWorld(realTime, random, setting, options.note);
  world.pace = PACE;
  return await new NodesSimulation(world, server).run(options);
}

interface Proxy {
  port: number;
  sockets: Set<Socket>;
  close(): void;
}

/** A PostgreSQL server behind proxies, one for each node, which delay, lose and cut its connections. */
class RealServer extends NodeServer {
  readonly #url: URL;
  readonly #schema = `simulator_${randomUUID().replaceAll('-', '')}`;
  readonly #setting: Setting;
  readonly #admin: PostgresDatabase;
  readonly #proxies: Proxy[] = [];
  /** Pools of each node. */
  readonly #pools = new Map<number, PostgresDatabase[]>();

  constructor(url: string, setting: Setting, random: SeededRandom) {
    super(random);
    this.#url = new URL(url);
    this.#setting = setting;
    this.#admin = this.#pool(this.#urlAt(this.#url.host), 4);
  }

  async open(): Promise<void> {
    await this.#admin.query(`CREATE SCHEMA ${this.#schema}`);
    await migratePostgres(this.#urlAt(this.#url.host));
    while (this.#proxies.length < 4) this.#proxies.push(await this.#openProxy());
  }

  async close(): Promise<void> {
    this.isUp = false;
    for (const proxy of this.#proxies) proxy.close();
    for (const node of this.#pools.keys()) this.end(node);
    await this.#admin.query(`DROP SCHEMA ${this.#schema} CASCADE`);
    await this.#admin.close();
  }

  connector(node: number): Connect {
    return async (_url, options) => connectDirectly(this.#urlOf(node), options);
  }

  database(node: number): PostgresDatabase {
    const pool = this.#pool(this.#urlOf(node), 3);
    this.#pools.set(node, [...(this.#pools.get(node) ?? []), pool]);
    return pool;
  }

  openStore(node: number, owner: string, clock: Clock): PostgresStore {
    const writes = this.#pool(this.#urlOf(node), WRITE_CONNECTIONS);
    const reads = this.database(node);
    this.#pools.get(node)?.push(writes);
    return this.#storeOn({ writes, reads }, owner, clock);
  }

  cut(node?: number): void {
    for (const [place, { sockets }] of this.#proxies.entries()) {
      if (node === undefined || node === place) for (const socket of sockets) socket.destroy();
    }
  }

  end(node: number): void {
    this.cut(node);
    for (const pool of this.#pools.get(node) ?? []) void pool.close().catch(() => {});
    this.#pools.delete(node);
  }

  async hasToken(id: string): Promise<boolean> {
    return (await this.#admin.query('SELECT FROM tokens WHERE id = $1', [id])).length > 0;
  }

  async unfinished(): Promise<number> {
    const count = "SELECT count(*) AS count FROM messages WHERE state <> 'failed'";
    return (await this.#admin.query<{ count: number }>(count))[0]?.count ?? 0;
  }

  async read() {
    const tables = await this.#admin.transaction(async (query) => {
      await query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ');
      const rows = await query<{ id: string; result: string }>('SELECT id, result FROM tasks');
      const messages = await query<StoredMessage>('SELECT id, state, attempts, reason FROM messages');
      return { rows, messages };
    });
    const store = this.#storeOn({ writes: this.#admin, reads: this.#admin }, 'admin', systemClock);
    return { ...tables, counts: await store.counts() };
  }

  #storeOn(databases: ConstructorParameters<typeof PostgresStore>[0], owner: string, clock: Clock): PostgresStore {
    const bounds = { maxLength: this.#setting.maxLength, maxBytes: 2 ** 40, maxKeys: 1000 };
    return new PostgresStore(databases, { bounds, owner, now: () => clock.now() });
  }

  #pool(url: string, connections: number): PostgresDatabase {
    return new PostgresDatabase(url, { connections, timeLimitMs: TIME_LIMIT_MS });
  }

  #urlOf(node: number): string {
    return this.#urlAt(`127.0.0.1:${this.#proxies[node]?.port}`);
  }

  #urlAt(host: string): string {
    const url = new URL(this.#url);
    url.host = host;
    url.searchParams.set('options', `-c search_path=${this.#schema}`);
    return url.href.replaceAll('+', '%20');
  }

  async #openProxy(): Promise<Proxy> {
    const sockets = new Set<Socket>();
    const server = createServer((near) => {
      const far = connect(Number(this.#url.port || 5432), this.#url.hostname);
      for (const [socket, other] of [
        [near, far],
        [far, near],
      ] as const) {
        sockets.add(socket.on('error', () => {}));
        socket.on('close', () => other.destroy() && sockets.delete(socket));
        socket.on('data', (data) => {
          // Nothing of a lost message arrives later, so the connection ends: after a commit, if it was an answer.
          if (this.random.chance(this.lossRate / 10)) near.destroy();
          else if (this.latencyMs === 0) other.write(data);
          else setTimeout(() => other.write(data), this.latencyMs / 4);
        });
      }
      if (!this.isUp) near.destroy();
    });
    await once(server.listen(0, '127.0.0.1'), 'listening');
    return { port: (server.address() as AddressInfo).port, sockets, close: () => void server.close() };
  }
}

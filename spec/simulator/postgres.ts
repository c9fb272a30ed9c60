import { randomUUID } from 'node:crypto';
import { once } from 'node:events';
import { type AddressInfo, connect, createServer, type Socket } from 'node:net';
import { connectDirectly, PostgresDatabase } from '../../db/postgres/database.ts';
import { migratePostgres } from '../../db/postgres/migrate.ts';
import { PostgresStore, WRITE_CONNECTIONS } from '../../db/postgres/store.ts';
import type { StoredMessage } from '../../db/task-store.ts';
import { type Clock, systemClock } from '../../workers/shared/clock.ts';
import { type NodeServer, type ServerFaults, simulateNodes } from './nodes.ts';
import type { Time } from './time.ts';
import type { Setting, SimulationOptions, SimulationResult } from './world.ts';

const TIME_LIMIT_MS = 2000;
const LOOK_MS = 20;
/** Factor of all waits and handlers, because this time is real. */
const PACE = 0.1;

const realTime: Time = {
  get now() {
    return systemClock.now();
  },
  timer: systemClock.timer,
  async pass(ms, isOver = () => false) {
    const end = systemClock.now() + ms;
    do await systemClock.sleep(Math.min(LOOK_MS, end - systemClock.now()));
    while (systemClock.now() < end && !isOver());
  },
};

/** Runs nodes on a real server, in a schema of their own. The same seed has the same steps, but not the same history. */
export function simulateOnPostgres(options: SimulationOptions): Promise<SimulationResult> {
  const url = new URL(options.databaseUrl ?? '');
  return simulateNodes(options, realTime, (_, faults, setting) => openServer(url, setting, faults), PACE);
}

/** Opens a PostgreSQL server behind proxies, one for each node, which delay, lose and cut its connections. */
async function openServer(url: URL, { bounds }: Setting, faults: ServerFaults): Promise<NodeServer> {
  const schema = `simulator_${randomUUID().replaceAll('-', '')}`;
  const proxies = await Promise.all([0, 1, 2, 3].map(() => openProxy(url, faults)));
  const pools = new Map<number, PostgresDatabase[]>();
  const urlAt = (host: string) => {
    const own = new URL(url);
    own.host = host;
    own.searchParams.set('options', `-c search_path=${schema}`);
    return own.href.replaceAll('+', '%20');
  };
  const urlOf = (node: number) => urlAt(`127.0.0.1:${proxies[node]?.port}`);
  const open = (at: string, connections: number) =>
    new PostgresDatabase(at, { connections, timeLimitMs: TIME_LIMIT_MS });
  const openFor = (node: number, connections: number) => {
    const pool = open(urlOf(node), connections);
    pools.set(node, [...(pools.get(node) ?? []), pool]);
    return pool;
  };
  const storeOn = (writes: PostgresDatabase, reads: PostgresDatabase, owner: string, clock: Clock) =>
    new PostgresStore({ writes, reads }, { bounds, owner, now: () => clock.now() });
  const cut = (node?: number) => {
    for (const [place, { sockets }] of proxies.entries())
      if (node === undefined || node === place) for (const socket of sockets) socket.destroy();
  };
  const end = (node: number) => {
    cut(node);
    for (const pool of pools.get(node) ?? []) void pool.close().catch(() => {});
    pools.delete(node);
  };
  const admin = open(urlAt(url.host), 4);
  await admin.query(`CREATE SCHEMA ${schema}`);
  await migratePostgres(urlAt(url.host));
  const store = storeOn(admin, admin, 'admin', systemClock);
  return {
    ...{ cut, end, isReal: true },
    connector: (node) => async (_url, options) => connectDirectly(urlOf(node), options),
    database: (node) => openFor(node, 3),
    openStore: (node, owner, clock) => storeOn(openFor(node, WRITE_CONNECTIONS), openFor(node, 3), owner, clock),
    hasToken: async (id) => (await admin.query('SELECT FROM tokens WHERE id = $1', [id])).length > 0,
    store: () => store,
    async read() {
      return await admin.transaction(async (query) => {
        await query('SET TRANSACTION ISOLATION LEVEL REPEATABLE READ');
        const rows = await query<{ id: string; result: string }>('SELECT id, result FROM tasks');
        return { rows, messages: await query<StoredMessage>('SELECT id, state FROM messages') };
      });
    },
    async close() {
      faults.isUp = false;
      for (const proxy of proxies) proxy.close();
      for (const node of pools.keys()) end(node);
      await admin.query(`DROP SCHEMA ${schema} CASCADE`);
      await admin.close();
    },
  };
}

async function openProxy(url: URL, faults: ServerFaults) {
  const sockets = new Set<Socket>();
  const server = createServer((near) => {
    const far = connect(Number(url.port || 5432), url.hostname);
    const connectTo = (socket: Socket, other: Socket) => {
      sockets.add(socket.on('error', () => {}));
      socket.on('close', () => other.destroy() && sockets.delete(socket));
      socket.on('data', (data) => {
        // Nothing of a lost message arrives later, so the connection ends: after a commit, if it was an answer.
        if (faults.random.chance(faults.lossRate / 10)) near.destroy();
        else if (faults.latencyMs === 0) other.write(data);
        else setTimeout(() => other.write(data), faults.latencyMs / 4);
      });
    };
    connectTo(near, far);
    connectTo(far, near);
    if (!faults.isUp) near.destroy();
  });
  await once(server.listen(0, '127.0.0.1'), 'listening');
  return { port: (server.address() as AddressInfo).port, sockets, close: () => void server.close() };
}

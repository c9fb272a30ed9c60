import { setTimeout } from 'node:timers/promises';
import type { Dialect } from '../../load/crowd.ts';
import type { StreamTarget } from '../../load/stream-client.ts';
import { gather } from '../../support/crowd.ts';
import { residentBytes } from '../../support/proc.ts';
import { type Program, startServices } from '../../support/program.ts';
import type { Figure } from '../bench.ts';
import { cpuOf, gatherCrowd, startPeer, streamOf } from '../server.ts';

/** Socket.IO's own protocol inside of WebSocket frames. */
const socketIo: Dialect = { hello: '40', answers: { '2': '3' }, offset: '42["tick",'.length };

/** Cost of a stream with that many clients, and whether `most` clients, as many as a process may have, get every tick. */
export function stream(clients: number, most: number, seconds: number): Figure {
  const beside = 'ws loop';
  const of = `product, ${most} clients`;
  return {
    name: `stream to ${clients} clients, one tick a second, ${seconds} s`,
    contenders: {
      product: () => measureStream(clients, seconds),
      [of]: () => measureStream(most, seconds),
      [beside]: async () => measure(await startLoop(), clients, seconds),
      'Socket.IO': async () => {
        const peer = await startStream('socket-io', '/socket.io/?EIO=4&transport=websocket');
        return measure(peer, clients, seconds, socketIo);
      },
    },
    readings: [
      { key: 'cpu', name: 'server CPU a delivered frame', unit: 'µs', beside, target: { atMost: 0.87 } },
      { key: 'cpu', name: `the same, ${most} clients`, unit: 'µs', of, beside: 'product' },
      { key: 'memory', name: 'memory a client', unit: 'kB', beside, target: { atMost: 1.25 } },
      { key: 'spread', name: 'from first to last client, median', unit: 'ms', beside, target: { atMost: 1 } },
      { key: 'lateness', name: 'from tick to client, p99', unit: 'ms', beside },
      { key: 'missed', name: 'frames missed', target: { atMost: 0 } },
      { key: 'failed', name: 'connections failed', target: { atMost: 0 } },
      { key: 'missed', name: `frames missed, ${most} clients`, of, target: { atMost: 0 } },
      { key: 'failed', name: `connections failed, ${most} clients`, of, target: { atMost: 0 } },
      { key: 'spread', name: `from first to last of ${most} clients, median`, unit: 'ms', of },
    ],
  };
}

type Stream = { server: Program; target: StreamTarget };

const startLoop = () => startStream('ws-loop', '/');

async function startStream(peer: string, path: string): Promise<Stream> {
  const { server, port } = await startPeer(peer);
  return { server, target: { host: '127.0.0.1', port, path } };
}

async function measureStream(clients: number, seconds: number) {
  const server = await startServices();
  return measure({ server, target: await streamOf(server) }, clients, seconds);
}

async function measure({ server, target }: Stream, connections: number, seconds: number, dialect?: Dialect) {
  const pid = server.child.pid as number;
  await setTimeout(1000);
  const before = residentBytes(pid);
  const crowd = await gatherCrowd({ target, connections, concurrency: 200, ...(dialect && { dialect }) });
  await setTimeout(3000);
  const memory = (residentBytes(pid) - before) / connections / 1024;
  // Away from a tick.
  await setTimeout(1500 - (Date.now() % 1000));
  crowd.startOver();
  const cpu = cpuOf(server);
  await setTimeout(seconds * 1000);
  const used = cpuOf(server) - cpu;
  const lacking = await crowd.catchUp(2000);
  const { received, missed, skew, lateness } = crowd.record.report();
  return {
    cpu: (used / received) * 1e6,
    memory,
    ...{ spread: skew.p50, lateness: lateness.p99 },
    ...{ missed: missed + lacking, failed: connections - crowd.size },
  };
}

const TOKEN_EACH = 'product, a token each';

export function upgrades(clients: number): Figure {
  const cpu = { key: 'cpu', unit: 'µs', beside: 'ws accept' };
  return {
    name: `${clients} upgrades in a storm`,
    contenders: {
      product: () => measureProductUpgrades(clients, 1),
      [TOKEN_EACH]: () => measureProductUpgrades(clients, clients),
      'ws accept': async () => measureUpgrades(await startLoop(), clients),
    },
    readings: [
      { ...cpu, name: 'server CPU an upgrade, one token', target: { atMost: 2 } },
      { ...cpu, name: 'server CPU an upgrade, a token each', of: TOKEN_EACH, target: { atMost: 3 } },
      { key: 'failed', name: 'connections failed', target: { atMost: 0 } },
    ],
  };
}

async function measureProductUpgrades(clients: number, count: number) {
  const server = await startServices({ env: { TOKEN_REQUESTS_PER_MINUTE: '1000000', TOKENS_PER_KEY: '100000' } });
  const tokens: string[] = [];
  while (tokens.length < count) {
    const batch = Array.from({ length: Math.min(50, count - tokens.length) }, server.token);
    tokens.push(...(await Promise.all(batch)));
  }
  return measureUpgrades({ server, target: await streamOf(server) }, clients, tokens);
}

async function measureUpgrades({ server, target }: Stream, clients: number, tokens: string[] = []) {
  await setTimeout(1000);
  const cpu = cpuOf(server);
  const crowd = await gatherCrowd({ target, connections: clients, concurrency: 500, tokens });
  return { cpu: ((cpuOf(server) - cpu) / clients) * 1e6, failed: clients - crowd.size };
}

/** Storms of one measurement. Each begins at another time after a tick. */
const STORMS = 5;

export function storm(clients: number, observers: number): Figure {
  return {
    name: `${clients} clients reconnect at once beside ${observers} connected clients`,
    contenders: { product: () => measureStorms(clients, observers) },
    readings: [
      { key: 'quietMs', name: 'tick lateness before, worst', unit: 'ms' },
      { key: 'lateMs', name: 'tick lateness in the storms, worst', unit: 'ms', target: { atMost: 100 } },
      { key: 'machineMs', name: "delay of the observers' own timers, worst", unit: 'ms' },
      { key: 'seconds', name: 'until all are connected again, worst', unit: 's' },
      { key: 'failed', name: 'connections failed', target: { atMost: 0 } },
      { key: 'ended', name: 'observers disconnected', target: { atMost: 0 } },
    ],
  };
}

async function measureStorms(clients: number, count: number) {
  const target = await streamOf(await startServices());
  const observers = await gather({ port: target.port, token: `${target.token}`, readers: count });
  const observe = async () => {
    const { lateMs, machineMs, open } = await observers.report();
    await observers.startOver();
    return { lateMs, machineMs, ended: count - open };
  };
  const reconnect = (concurrency: number) => gatherCrowd({ target, connections: clients, concurrency });
  let crowd = await reconnect(200);
  await observe();
  await setTimeout(3000);
  const quietMs = (await observe()).lateMs;
  let seconds = 0;
  let failed = 0;
  for (let number = 0; number < STORMS; number++) {
    await setTimeout(1000 - (Date.now() % 1000) + (number * 1000) / STORMS);
    const began = performance.now();
    crowd.disperse();
    crowd = await reconnect(clients);
    seconds = Math.max(seconds, (performance.now() - began) / 1000);
    failed += clients - crowd.size;
    // Until the tick after the storm has arrived.
    await setTimeout(1500);
  }
  return { quietMs, ...(await observe()), seconds, failed };
}

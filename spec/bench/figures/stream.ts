import { setTimeout } from 'node:timers/promises';
import type { Dialect } from '../../load/crowd.ts';
import type { StreamTarget } from '../../load/stream-client.ts';
import { residentBytes } from '../../support/proc.ts';
import { type Program, startServices } from '../../support/program.ts';
import type { Figure } from '../bench.ts';
import { cpuOf, gatherCrowd, startPeer, streamOf } from '../server.ts';

/** Socket.IO's own protocol inside of WebSocket frames. */
const socketIo: Dialect = { hello: '40', answers: { '2': '3' }, offset: '42["tick",'.length };

/** What a stream costs with so many clients, at one tick a second. */
export function stream(clients: number, seconds: number): Figure {
  const beside = 'ws loop';
  const measurePeer = async (name: string, path: string, dialect?: Dialect) => {
    const { server, port } = await startPeer(name);
    return measure(server, { host: '127.0.0.1', port, path }, clients, seconds, dialect);
  };
  return {
    name: `stream to ${clients} clients, one tick a second, ${seconds} s`,
    contenders: {
      product: () => measureProduct(clients, seconds),
      [beside]: () => measurePeer('ws-loop', '/'),
      'Socket.IO': () => measurePeer('socket-io', '/socket.io/?EIO=4&transport=websocket', socketIo),
    },
    readings: [
      { key: 'cpu', name: 'server CPU a delivered frame', unit: 'µs', beside, target: { atMost: 0.87 } },
      { key: 'memory', name: 'memory a client', unit: 'kB', beside, target: { atMost: 1.25 } },
      { key: 'spread', name: 'from first to last client, median', unit: 'ms', beside, target: { atMost: 1 } },
      { key: 'lateness', name: 'from tick to client, p99', unit: 'ms', beside },
      { key: 'missed', name: 'frames missed', target: { atMost: 0 } },
      { key: 'failed', name: 'connections failed', target: { atMost: 0 } },
    ],
  };
}

/** Whether as many clients as one process may have sockets open get every tick, for a minute. */
export function crowds(sizes: readonly number[], seconds: number): Figure {
  const nameOf = (clients: number) => `product, ${clients} clients`;
  return {
    name: `stream to ${sizes.join(' and ')} clients, ${seconds} s`,
    contenders: Object.fromEntries(sizes.map((size) => [nameOf(size), () => measureProduct(size, seconds)])),
    readings: sizes.flatMap((size) => [
      { key: 'missed', name: `frames missed, ${size} clients`, of: nameOf(size), target: { atMost: 0 } },
      { key: 'failed', name: `connections failed, ${size} clients`, of: nameOf(size), target: { atMost: 0 } },
      { key: 'spread', name: `from first to last of ${size} clients, median`, unit: 'ms', of: nameOf(size) },
    ]),
  };
}

async function measureProduct(clients: number, seconds: number) {
  const server = await startServices();
  return measure(server, await streamOf(server), clients, seconds);
}

async function measure(server: Program, target: StreamTarget, connections: number, seconds: number, dialect?: Dialect) {
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

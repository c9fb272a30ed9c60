/**
 * Clients of the stream in a process of their own, so that no other load delays their clocks: `observers.ts PORT TOKEN
 * CLIENTS`. Writes a line once all are connected, and their observations since the last one for each line that it reads.
 */
import { createInterface } from 'node:readline';
import { TickLateness } from '../hostile/tick-lateness.ts';
import { StreamClient } from '../load/stream-client.ts';

const INTERVAL_MS = 1000;
const MACHINE_MS = 5;

const [port, token, clients] = process.argv.slice(2) as [string, string, string];
const all = Array.from({ length: Number(clients) }, () => new TickLateness(INTERVAL_MS));
let open = 0;
let ended = 0;
let machineMs = 0;

for (const lateness of all) {
  let received = -1;
  new StreamClient(
    { host: '127.0.0.1', port: Number(port), path: '/ws/ticker', token },
    {
      onOpen: () => ++open === all.length && console.log('{"open":true}'),
      onText(payload) {
        const now = performance.timeOrigin + performance.now();
        const stamp = /^\{"type":"ticker".*?"timestamp":(\d+)/.exec(payload.toString('latin1'))?.[1];
        // The first one is the snapshot.
        if (stamp === undefined || ++received === 0) return;
        lateness.record(Number(stamp), now);
      },
      onEnd: () => {
        ended++;
        // The caller would wait for the line forever.
        if (open < all.length) process.exit(1);
      },
    },
  );
}

let dueMs = performance.now() + MACHINE_MS;
setInterval(() => {
  machineMs = Math.max(machineMs, performance.now() - dueMs);
  dueMs = performance.now() + MACHINE_MS;
}, MACHINE_MS);

createInterface(process.stdin).on('line', () => {
  const lateMs = Math.max(...all.map(({ worstMs }) => worstMs));
  console.log(JSON.stringify({ lateMs, machineMs, ended }));
  for (const lateness of all) lateness.reset();
  machineMs = 0;
});

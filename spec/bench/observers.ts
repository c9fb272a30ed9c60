/**
 * Clients of the stream in a process of their own, so that no other load delays their clocks: `observers.ts PORT TOKEN
 * CLIENTS`. Writes a line once all are connected, and their observations since the last one for each line that it reads.
 */
import { createInterface } from 'node:readline';
import { Crowd } from '../load/crowd.ts';
import { watchDelays } from '../support/delays.ts';

const [port, token, clients] = process.argv.slice(2) as [string, string, string];
const crowd = new Crowd({
  target: { host: '127.0.0.1', port: Number(port), path: '/ws/ticker', token },
  connections: Number(clients),
  concurrency: Number(clients),
  intervalMs: 1000,
});
const delays = watchDelays();
await crowd.gather();
// The caller would wait for the line forever.
if (crowd.lost > 0) process.exit(1);
console.log('{"open":true}');

createInterface(process.stdin).on('line', () => {
  const { lateness } = crowd.record.report();
  console.log(JSON.stringify({ lateMs: lateness.max, machineMs: delays.worstMs(), ended: crowd.lost }));
  crowd.startOver();
  delays.reset();
});

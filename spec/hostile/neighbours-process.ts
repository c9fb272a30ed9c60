/** Runs the neighbours in a separate process, so that an attack does not distort their clocks. */
import { setTimeout } from 'node:timers/promises';
import { NeighbourRequests } from './neighbour-requests.ts';
import { NeighbourStreams } from './neighbour-streams.ts';
import type { NeighbourAnswer, NeighbourTask } from './neighbours.ts';

const MACHINE_MS = 10;

let streams = new NeighbourStreams();
let requests: NeighbourRequests | undefined;
let began = 0;

/** Longest timer delay in this process. */
let machineMs = 0;
let dueMs = performance.now() + MACHINE_MS;
setInterval(() => {
  const now = performance.now();
  machineMs = Math.max(machineMs, now - dueMs);
  dueMs = now + MACHINE_MS;
}, MACHINE_MS);

async function take(task: NeighbourTask): Promise<NeighbourAnswer> {
  switch (task.step) {
    case 'join':
      streams = new NeighbourStreams();
      await streams.join(task.ticker, task.token);
      return {};
    case 'begin':
      requests = new NeighbourRequests(task);
      streams.begin();
      machineMs = 0;
      began = performance.now();
      return {};
    case 'end': {
      const seconds = (performance.now() - began) / 1000;
      const ofRequests = await requests?.end();
      const ofStreams = await streams.end();
      return { sight: { seconds, machineMs, ...ofStreams, ...(ofRequests as NonNullable<typeof ofRequests>) } };
    }
    case 'account':
      await requests?.account(task.tasks);
      return {};
    case 'leave':
      streams.leave();
      await setTimeout(0);
      return {};
  }
}

process.on('message', (task: NeighbourTask) => {
  void take(task)
    .catch((error: Error): NeighbourAnswer => ({ error: error.message }))
    .then((answer) => process.send?.(answer));
});
process.on('disconnect', () => process.exit());
process.send?.('ready');

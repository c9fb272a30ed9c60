/** Runs the neighbours in a separate process, so that an attack does not distort their clocks. */
import { Crowd } from '../load/crowd.ts';
import { watchDelays } from '../support/delays.ts';
import { NeighbourRequests } from './neighbour-requests.ts';
import { type NeighbourAnswer, type NeighbourTask, type Sight, STREAMS, TICK_INTERVAL_MS } from './neighbours.ts';

/** Longest waits for the first ticks, and for outstanding ticks at the end of a window. */
const FIRST_TICKS_MS = 10_000;
const CATCH_UP_MS = 2000;

let crowd: Crowd;
let requests: NeighbourRequests;
let began = 0;
const delays = watchDelays();

/** Opens the streams and waits for the first ticks. */
async function join(port: number, token: string): Promise<void> {
  const target = { host: '127.0.0.1', port, path: '/ws/ticker', token };
  crowd = new Crowd({ target, connections: STREAMS, concurrency: STREAMS, intervalMs: TICK_INTERVAL_MS });
  await crowd.gather();
  if (crowd.lost > 0) throw new Error(`a neighbour cannot join: ${[...crowd.losses.keys()]}`);
  const deadline = performance.now() + FIRST_TICKS_MS;
  while (crowd.record.ticks < 2) {
    if (performance.now() > deadline) throw new Error('no ticks');
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function end(): Promise<Sight> {
  const seconds = (performance.now() - began) / 1000;
  const ofRequests = await requests.end();
  const lacking = await crowd.catchUp(CATCH_UP_MS);
  const { ticks, missed, lateness } = crowd.record.report();
  const disconnections = Object.fromEntries(crowd.losses);
  const ofStreams = { open: crowd.size, ticks, missed: missed + lacking, tickMs: lateness.max, disconnections };
  return { seconds, machineMs: delays.worstMs(), ...ofStreams, ...ofRequests };
}

async function take(task: NeighbourTask): Promise<NeighbourAnswer> {
  switch (task.step) {
    case 'join':
      await join(task.ticker, task.token);
      return {};
    case 'begin':
      requests = new NeighbourRequests(task);
      crowd.startOver();
      crowd.losses.clear();
      delays.reset();
      began = performance.now();
      return {};
    case 'end':
      return { sight: await end() };
    case 'account':
      await requests.account(task.tasks);
      return {};
    case 'leave':
      crowd.disperse();
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

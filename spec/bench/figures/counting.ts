import { RequestMetrics, recordRequests } from '../../../main/metrics/request-metrics.ts';
import { TaskEvents } from '../../../main/tasks/task-events.ts';
import { systemClock, systemRandom } from '../../../workers/shared/clock.ts';
import { DURATION_BOUNDS, Histogram } from '../../../workers/shared/histogram.ts';
import type { Figure } from '../figure.ts';
import { measureProduct } from './submissions.ts';

const OWN = 'its figures';

/** What it costs to count all that the metrics tell of a submission and its task, by what the two cost in all. */
export function counting(seconds: number, rounds: number): Figure {
  return {
    name: `the figures of a submission and its task, noted ${rounds} times`,
    contenders: {
      product: () => measureProduct(32, seconds),
      [OWN]: () => measureCounting(rounds),
    },
    readings: [
      { key: 'cpu', name: 'server CPU a submission', unit: 'µs' },
      { key: 'cpu', name: 'of which to count it', unit: 'µs', of: OWN, beside: 'product', target: { atMost: 0.02 } },
    ],
  };
}

async function measureCounting(rounds: number): Promise<Record<string, number>> {
  const note = recordRequests(new RequestMetrics());
  const request = { method: 'POST', _matchedRoute: '/tasks', status: 202, state: {}, headerSent: true };
  const answer = async () => {};
  const waits = new Histogram(DURATION_BOUNDS);
  const runs = new Histogram(DURATION_BOUNDS, new SharedArrayBuffer(Histogram.bytes(DURATION_BOUNDS)));
  const events = new TaskEvents({ clock: systemClock, random: systemRandom });
  const once = async () => {
    await note(request as never, answer);
    events.record({ event: 'accepted', id: '', at: 1 });
    waits.observe(Date.now() % 10);
    events.record({ event: 'started', id: '', at: 1, attempt: 1 });
    const from = performance.now();
    runs.observe((performance.now() - from) / 1000);
    events.record({ event: 'completed', id: '', at: 1 });
  };
  // The first rounds are not compiled yet.
  for (let round = 0; round < rounds / 10; round++) await once();
  const before = process.cpuUsage();
  for (let round = 0; round < rounds; round++) await once();
  const { user, system } = process.cpuUsage(before);
  return { cpu: (user + system) / rounds };
}

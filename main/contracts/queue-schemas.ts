import Type from 'typebox';
import { strict, strictObject } from './task-schemas.ts';

const count = Type.Integer({ minimum: 0 });
const seconds = Type.Number({ minimum: 0, description: 'seconds' });
const column = Type.Array(count, { maxItems: 900 });

/** Returns the schema of percentiles, whose value is null if no attempt ended in the measured period. */
function percentiles(description: string) {
  const fields = Type.Object({ p50: seconds, p95: seconds, p99: seconds }, strict);
  return Type.Union([fields, Type.Null()], { description });
}

const limits = Type.Object(
  {
    length: Type.Integer({ minimum: 0, description: 'maximum of waiting + delayed + in_flight' }),
    bytes: Type.Integer({ minimum: 0, description: 'maximum of `bytes`' }),
    dead_letters: Type.Integer({ minimum: 0, description: 'maximum of `dead`' }),
    prefetch: Type.Integer({ minimum: 1, description: 'maximum number of deliveries in flight on a node' }),
  },
  strict,
);

const stalled = Type.Union(
  [
    Type.Object(
      { reason: Type.String(), since: Type.Integer({ minimum: 0, description: 'when the problem was first seen' }) },
      strict,
    ),
    Type.Null(),
  ],
  { description: 'why no task can be processed; null if tasks can be processed' },
);

const latency = Type.Object(
  {
    window_seconds: Type.Literal(300),
    waiting: percentiles('time from acceptance to the start of the first attempt; null if no first attempt ended'),
    running: percentiles('duration of an attempt; null if no attempt ended'),
  },
  { ...strict, description: 'Estimates for the attempts of the last five minutes on the node that answers.' },
);

export const queueSchemas = {
  Queue: strictObject(
    'At any time, accepted = completed + dead + dropped + cancelled + waiting + delayed + in_flight.',
    {
      accepted: count,
      completed: count,
      dead: Type.Integer({ minimum: 0, description: 'stored dead letters' }),
      dropped: Type.Integer({ minimum: 0, description: 'dead letters that were purged or evicted' }),
      cancelled: count,
      waiting: count,
      delayed: count,
      bytes: Type.Integer({
        minimum: 0,
        description:
          'memory used by the texts of messages that are waiting, delayed or in flight; on several nodes, their size in UTF-8',
      }),
      in_flight: count,
      limits,
      oldest_age_seconds: Type.Union([seconds, Type.Null()], {
        description: 'age of the oldest task that is waiting, delayed or in flight; null if there is none',
      }),
      threads: Type.Object({ busy: count, total: count }, { ...strict, description: 'of the node that answers' }),
      paused: Type.Boolean(),
      stalled,
      latency,
    },
    {
      ...{ accepted: 8, completed: 4, dead: 1, dropped: 0, cancelled: 1, waiting: 1, delayed: 0, bytes: 228 },
      in_flight: 1,
      limits: { length: 10_000, bytes: 67_108_864, dead_letters: 10_000, prefetch: 5 },
      oldest_age_seconds: 0.215,
      threads: { busy: 1, total: 2 },
      paused: false,
      stalled: null,
      latency: {
        window_seconds: 300,
        waiting: { p50: 0.0042, p95: 0.021, p99: 0.047 },
        running: { p50: 0.00031, p95: 0.00048, p99: 0.0009 },
      },
    },
  ),
  QueueHistory: strictObject(
    'One number per complete second in each column, oldest second first. All columns have the same length.',
    {
      end: Type.Integer({ minimum: 0, description: 'newest complete second, in Unix seconds' }),
      seconds: Type.Integer({ minimum: 0, maximum: 900, description: 'length of the columns' }),
      accepted: Type.Array(count, { maxItems: 900, description: 'accepted tasks, redriven ones included' }),
      completed: column,
      failed: Type.Array(count, { maxItems: 900, description: 'dead-lettered tasks' }),
      retried: Type.Array(count, { maxItems: 900, description: 'attempts followed by another attempt' }),
      depth: Type.Array(count, {
        maxItems: 900,
        description: 'waiting + delayed + in_flight at the end of the second',
      }),
    },
    {
      ...{ end: 1_790_000_002, seconds: 3 },
      ...{ accepted: [2, 0, 1], completed: [1, 1, 0], failed: [0, 0, 0], retried: [0, 0, 1], depth: [1, 0, 1] },
    },
  ),
};

import Type from 'typebox';
import {
  attempts,
  count,
  examples,
  failedAttempts,
  ID,
  payload,
  QUEUED_AT,
  reason,
  ref,
  strict,
  strictObject,
  taskState,
} from './task-schemas.ts';

const permanent = Type.Boolean({
  description: 'whether the last attempt failed with a permanent error, so that a redrive fails again',
});
const failure = {
  reason,
  attempts,
  permanent,
  first_at: Type.Integer({ minimum: 0, description: 'time of acceptance, in Unix seconds' }),
  last_at: Type.Integer({ minimum: 0, description: 'time of dead-lettering, in Unix seconds' }),
};
const { PAYLOAD, FAILURE } = examples;
const FAILED = { ...FAILURE, permanent: true, first_at: QUEUED_AT, last_at: QUEUED_AT + 1 };
const HISTORY = [{ at_ms: QUEUED_AT * 1000 + 512, reason: FAILURE.reason }];

const reasonCount = Type.Object(
  {
    reason: Type.Union([Type.String(), Type.Null()], {
      description: 'null for the sum of all reasons beyond the most frequent 100',
    }),
    count: Type.Integer({ minimum: 1 }),
    permanent: Type.Boolean({ description: 'whether all of these dead letters are permanent' }),
  },
  strict,
);

export const deadLetterSchemas = {
  FailedTask: taskState(
    'A dead letter: a task that failed and will not be retried.',
    'failed',
    { payload, ...failure, history: failedAttempts },
    { payload: PAYLOAD, ...FAILED, history: HISTORY },
  ),
  FailedTaskSummary: taskState(
    'A dead letter with the start of its payload, and without its history.',
    'failed',
    {
      action: Type.Union([Type.String({ maxLength: 256 }), Type.Null()], {
        description: 'first 256 characters; null if the payload was written by another program',
      }),
      payload: Type.String({ maxLength: 256, description: 'first 256 characters' }),
      payload_bytes: Type.Integer({ minimum: 0, description: 'size of the whole payload in UTF-8' }),
      ...failure,
    },
    { action: 'uppercase', payload: PAYLOAD, payload_bytes: PAYLOAD.length, ...FAILED },
  ),
  DeadLetterList: Type.Object(
    { dead_letters: Type.Array(ref('FailedTask'), { maxItems: 100 }), count },
    { ...strict, description: 'Latest first. `count` is the number of dead letters in the list.' },
  ),
  DeadLetterSummaryList: Type.Object(
    { dead_letters: Type.Array(ref('FailedTaskSummary'), { maxItems: 100 }), count },
    { ...strict, description: 'Latest first. `count` is the number of dead letters in the list.' },
  ),
  DeadLetterReasons: strictObject(
    'Dead letters counted by their reasons, most frequent first. `total` is the number of all dead letters.',
    { reasons: Type.Array(reasonCount, { maxItems: 101 }), total: count },
    { reasons: [{ reason: FAILURE.reason, count: 12, permanent: true }], total: 12 },
  ),
  DeadLetterSelection: Type.Union(
    [
      Type.Object({ ids: Type.Array(Type.String(), { minItems: 1, maxItems: 1000 }) }),
      Type.Object({ reason: Type.String() }),
      Type.Object({ all: Type.Literal(true) }),
    ],
    {
      description: 'Exactly one of `ids`, `reason` and `all`.',
      examples: [{ ids: [ID] }, { reason: FAILURE.reason }, { all: true }],
    },
  ),
  BulkResult: strictObject(
    'Result of a bulk redrive or purge.',
    {
      count: Type.Integer({ minimum: 0, description: 'dead letters that were redriven or purged' }),
      remaining: Type.Integer({ minimum: 0, description: 'selected dead letters that are kept, as the queue is full' }),
    },
    { count: 12, remaining: 0 },
  ),
};

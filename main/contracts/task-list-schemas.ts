import Type from 'typebox';
import { count, examples, ID, QUEUED_AT, ref, strict, strictObject, taskFields, unixSeconds } from './task-schemas.ts';

const { taskId, attempt, startedAt, progress, attempts, reason, retryProperties, submitted } = taskFields;
const { PAYLOAD, SUBMITTED } = examples;

const action = Type.Union([Type.String({ maxLength: 256 }), Type.Null()], {
  description: 'first 256 characters of the action; null if the payload was written by another program',
});

function start(name: string) {
  return Type.String({ maxLength: 256, description: `first 256 characters of the ${name}` });
}

function size(name: string) {
  return Type.Integer({ minimum: 0, description: `size of the whole ${name} in bytes` });
}

/** OpenAPI schemas of task lists, which contain only the start of each payload and result. */
export const taskListSchemas = {
  TaskSummary: strictObject(
    'The start of a completed task, for lists.',
    {
      id: taskId,
      action,
      status: Type.String(),
      payload: start('payload'),
      payload_bytes: size('payload'),
      result: Type.Union([start('result'), Type.Null()]),
      result_bytes: Type.Union([size('result'), Type.Null()]),
      created_at: unixSeconds,
      processed_at: Type.Union([unixSeconds, Type.Null()]),
    },
    {
      id: ID,
      action: 'uppercase',
      status: 'completed',
      payload: PAYLOAD,
      payload_bytes: PAYLOAD.length,
      result: '{"output":"HELLO"}',
      result_bytes: 18,
      created_at: QUEUED_AT,
      processed_at: QUEUED_AT + 1,
    },
  ),
  TaskSummaryList: Type.Object(
    { tasks: Type.Array(ref('TaskSummary'), { maxItems: 100 }), count },
    { ...strict, description: 'Newest first. `count` is the number of tasks in the list.' },
  ),
  ListedTask: strictObject(
    'The start of an unfinished task.',
    {
      id: taskId,
      action,
      status: Type.Enum(['queued', 'running', 'retrying'], {
        type: 'string',
        description: 'A task that a node has taken but not started is `queued` in the list of running tasks.',
      }),
      accepted_at_ms: submitted.accepted_at_ms,
      payload: start('payload'),
      payload_bytes: size('payload'),
      attempt: Type.Optional(attempt),
      progress,
      started_at_ms: Type.Optional(startedAt),
      attempts: Type.Optional(attempts),
      reason: Type.Optional(reason),
      next_attempt_at: Type.Optional(retryProperties.next_attempt_at),
      next_attempt_at_ms: Type.Optional(retryProperties.next_attempt_at_ms),
    },
    {
      id: ID,
      action: 'uppercase',
      status: 'running',
      accepted_at_ms: SUBMITTED.accepted_at_ms,
      payload: PAYLOAD,
      payload_bytes: PAYLOAD.length,
      attempt: 1,
      started_at_ms: QUEUED_AT * 1000 + 6,
    },
  ),
  ListedTasks: Type.Object(
    {
      tasks: Type.Array(ref('ListedTask'), { maxItems: 100 }),
      count,
      total: Type.Integer({ minimum: 0, description: 'number of tasks in this state, as in `GET /queue`' }),
    },
    { ...strict, description: '`count` is the number of tasks in the list.' },
  ),
};

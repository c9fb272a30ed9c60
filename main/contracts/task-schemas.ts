import Type, { type TProperties } from 'typebox';

export function ref(name: string) {
  return Type.Ref(`#/components/schemas/${name}`);
}

export const strict = { additionalProperties: false } as const;
export const count = Type.Integer({ minimum: 0 });
export const unixSeconds = Type.Integer({ minimum: 0, description: 'Unix seconds' });

/** Returns the schema of an object that allows no additional fields. @param description omitted if empty */
export function strictObject(description: string, properties: TProperties, ...examples: object[]) {
  return Type.Object(properties, { ...strict, ...(description !== '' && { description }), examples });
}

export const ID = '3f0f4c1e-8f6b-4d7e-9a51-0f4f3c2b1a90';
export const QUEUED_AT = 1_790_000_000;
const PAYLOAD = JSON.stringify({ id: ID, action: 'uppercase', data: { text: 'hello' }, created_at: QUEUED_AT });
const SUBMITTED = { payload: PAYLOAD, accepted_at_ms: QUEUED_AT * 1000 + 4, history: [] };
const PROGRESS = { fraction: 0.25, note: 'page 1 of 4' };
const DUE = { next_attempt_at: QUEUED_AT + 2, next_attempt_at_ms: QUEUED_AT * 1000 + 1545 };
const RETRY = { attempts: 1, reason: 'the thread ended with exit code 1', ...DUE };
const FAILURE = { reason: 'data.text must be a string', attempts: 1 };

const taskId = Type.String({ format: 'uuid', description: 'UUID v4, assigned at submission', examples: [ID] });
export const payload = Type.String({
  contentMediaType: 'application/json',
  description:
    'JSON text of the submitted task: `id`, `action`, `data`, `created_at`. Numbers are doubles: integers above 2^53 lose precision, `-0` becomes `0`, and numbers above 1.8e308 become `null`',
});
export const reason = Type.String({ description: 'why the last attempt failed' });
export const attempts = Type.Integer({ minimum: 0, description: 'number of failed attempts' });

export const failedAttempts = Type.Array(
  Type.Object({ at_ms: Type.Integer({ minimum: 0 }), reason: Type.String({ maxLength: 1000 }) }, strict),
  { maxItems: 20, description: 'The newest failed attempts, oldest first. `at_ms` is in Unix milliseconds.' },
);

const attempt = Type.Integer({ minimum: 1, description: 'number of the attempt' });
const progress = Type.Optional(
  Type.Object(
    {
      fraction: Type.Number({ minimum: 0, maximum: 1, description: 'fraction done' }),
      note: Type.Optional(Type.String({ maxLength: 200 })),
    },
    { ...strict, description: 'last progress that the handler reported in this attempt' },
  ),
);
const startedAt = Type.Integer({
  minimum: 0,
  description:
    'start of the attempt in Unix milliseconds; absent if another node runs the task and this node does not know the time',
});
const nextAttemptAt = Type.Integer({ minimum: 0, description: 'time of the next attempt in Unix milliseconds' });
const submitted = {
  payload,
  accepted_at_ms: Type.Integer({ minimum: 0, description: 'time of acceptance in Unix milliseconds' }),
  history: failedAttempts,
};
const retryProperties = { attempts, reason, next_attempt_at: unixSeconds, next_attempt_at_ms: nextAttemptAt };

export const taskFields = { taskId, attempt, startedAt, progress, attempts, reason, retryProperties, submitted };

export const examples = { PAYLOAD, SUBMITTED, PROGRESS, RETRY, FAILURE };

/** Returns the schema of a task in state `status`. `properties` and `example` describe the other fields. */
export function taskState(description: string, status: string, properties: TProperties = {}, example: object = {}) {
  const fields = { id: taskId, status: Type.Literal(status), ...properties };
  return strictObject(description, fields, { id: ID, status, ...example });
}

export const taskSchemas = {
  Submission: Type.Object(
    {
      action: Type.String({ description: '`uppercase`, `sum`, or any other string, which outputs `processed`' }),
      data: Type.Optional(Type.Object({}, { additionalProperties: true, default: {} })),
    },
    {
      description: 'Other fields are ignored.',
      examples: [
        { action: 'uppercase', data: { text: 'hello' } },
        { action: 'sum', data: { numbers: [1, 2.5] } },
        { action: 'anything' },
      ],
    },
  ),
  Task: strictObject(
    'A completed task.',
    {
      id: taskId,
      payload,
      status: Type.Enum(['completed', 'pending'], {
        type: 'string',
        description:
          '`completed`, because a row is written only on completion. `pending` is the default value of the column.',
      }),
      result: Type.Union([Type.String({ contentMediaType: 'application/json' }), Type.Null()], {
        description: 'JSON text of an object with the field `output`',
      }),
      created_at: unixSeconds,
      processed_at: Type.Union([unixSeconds, Type.Null()]),
    },
    {
      id: ID,
      payload: PAYLOAD,
      status: 'completed',
      result: '{"output":"HELLO"}',
      created_at: QUEUED_AT,
      processed_at: QUEUED_AT + 1,
    },
  ),
  QueuedTask: taskState('A task waiting in the queue.', 'queued'),
  WaitingTask: taskState('A task waiting in the queue, with its payload.', 'queued', submitted, SUBMITTED),
  RunningTask: taskState(
    'A task that is running.',
    'running',
    { attempt, progress, ...submitted, started_at_ms: Type.Optional(startedAt) },
    { attempt: 1, progress: PROGRESS, ...SUBMITTED, started_at_ms: QUEUED_AT * 1000 + 6 },
  ),
  CancellingTask: taskState('A running task that was asked to end.', 'cancelling'),
  RetryingTask: taskState(
    'A task whose last attempt failed and that will be retried.',
    'retrying',
    { ...retryProperties, ...submitted },
    { ...RETRY, ...SUBMITTED, history: [{ at_ms: QUEUED_AT * 1000 + 512, reason: RETRY.reason }] },
  ),
  TaskList: Type.Object(
    { tasks: Type.Array(ref('Task'), { maxItems: 100 }), count },
    { ...strict, description: 'Newest first. `count` is the number of tasks in the list.' },
  ),
  ActionList: strictObject(
    'The actions that have a handler, built-in ones first.',
    {
      actions: Type.Array(
        Type.Object(
          {
            name: Type.String(),
            schema: Type.Optional(
              Type.Object(
                {},
                { additionalProperties: true, description: 'JSON Schema that `data` is checked against' },
              ),
            ),
          },
          strict,
        ),
      ),
      unknown_actions: Type.Enum(['process', 'reject'], {
        type: 'string',
        description: 'whether a task with any other action outputs `processed` or is refused (`TASK_UNKNOWN_ACTIONS`)',
      }),
    },
    {
      actions: [
        { name: 'uppercase' },
        { name: 'sum' },
        { name: 'resize', schema: { type: 'object', required: ['url'], properties: { url: { type: 'string' } } } },
      ],
      unknown_actions: 'process',
    },
  ),
};

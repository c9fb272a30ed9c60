import Type, { type TProperties } from 'typebox';

/** Returns a reference to the schema `name` in the OpenAPI document. */
export function ref(name: string) {
  return Type.Ref(`#/components/schemas/${name}`);
}

export const strict = { additionalProperties: false } as const;
const count = Type.Integer({ minimum: 0 });
export const unixSeconds = Type.Integer({ minimum: 0, description: 'Unix seconds' });

/** Returns the schema of an object that has only the fields in `properties`. @param description omitted if empty */
export function strictObject(description: string, properties: TProperties, ...examples: object[]) {
  return Type.Object(properties, { ...strict, ...(description !== '' && { description }), examples });
}

const ID = '3f0f4c1e-8f6b-4d7e-9a51-0f4f3c2b1a90';
const QUEUED_AT = 1_790_000_000;
const PAYLOAD = JSON.stringify({ id: ID, action: 'uppercase', data: { text: 'hello' }, created_at: QUEUED_AT });
const FAILURE = { reason: 'data.text must be a string', attempts: 1 };

const taskId = Type.String({ format: 'uuid', description: 'UUID v4, assigned at submission', examples: [ID] });
const payload = Type.String({
  contentMediaType: 'application/json',
  description:
    'JSON text of the submitted task: `id`, `action`, `data`, `created_at`. Numbers are doubles: integers above 2^53 lose precision, `-0` becomes `0`, and numbers above 1.8e308 become `null`',
});
const reason = Type.String({ description: 'why the last attempt failed' });
const attempts = Type.Integer({ minimum: 0, description: 'number of failed attempts' });

const action = Type.Union([Type.String({ maxLength: 256 }), Type.Null()], {
  description: 'first 256 characters of the action; null if the payload was written by another program',
});

/** Returns the schema of a text that is cut. */
function start(name: string) {
  return Type.String({ maxLength: 256, description: `first 256 characters of the ${name}` });
}

/** Returns the schema of the true size of a text that is cut. */
function size(name: string) {
  return Type.Integer({ minimum: 0, description: `size of the whole ${name} in bytes` });
}

/** Returns the schema of a task in state `status`. @param properties other fields @param example their values */
function taskState(description: string, status: string, properties: TProperties = {}, example: object = {}) {
  const fields = { id: taskId, status: Type.Literal(status), ...properties };
  return strictObject(description, fields, { id: ID, status, ...example });
}

/** OpenAPI schemas of service B's requests and responses, by name. */
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
  QueuedTask: taskState('A task waiting in the queue.', 'queued'),
  RunningTask: taskState(
    'A task that is running.',
    'running',
    {
      attempt: Type.Integer({ minimum: 1 }),
      progress: Type.Optional(
        Type.Object(
          {
            fraction: Type.Number({ minimum: 0, maximum: 1, description: 'fraction done' }),
            note: Type.Optional(Type.String({ maxLength: 200 })),
          },
          { ...strict, description: 'last progress that the handler reported in this attempt' },
        ),
      ),
    },
    { attempt: 1, progress: { fraction: 0.25, note: 'page 1 of 4' } },
  ),
  CancellingTask: taskState('A running task that was asked to end.', 'cancelling'),
  RetryingTask: taskState(
    'A task whose last attempt failed and that will be retried.',
    'retrying',
    { attempts, reason, next_attempt_at: unixSeconds },
    { attempts: 1, reason: 'the thread ended with exit code 1', next_attempt_at: QUEUED_AT + 2 },
  ),
  FailedTask: taskState(
    'A dead letter: a task that failed and will not be retried.',
    'failed',
    {
      payload,
      reason,
      attempts,
      first_at: Type.Integer({ minimum: 0, description: 'time of acceptance, in Unix seconds' }),
      last_at: Type.Integer({ minimum: 0, description: 'time of dead-lettering, in Unix seconds' }),
    },
    { payload: PAYLOAD, ...FAILURE, first_at: QUEUED_AT, last_at: QUEUED_AT + 1 },
  ),
  TaskList: Type.Object(
    { tasks: Type.Array(ref('Task'), { maxItems: 100 }), count },
    { ...strict, description: 'Newest first. `count` is the number of tasks in the list.' },
  ),
  TaskSummaryList: Type.Object(
    { tasks: Type.Array(ref('TaskSummary'), { maxItems: 100 }), count },
    { ...strict, description: 'Newest first. `count` is the number of tasks in the list.' },
  ),
  DeadLetterList: Type.Object(
    { dead_letters: Type.Array(ref('FailedTask'), { maxItems: 100 }), count },
    { ...strict, description: 'Latest first. `count` is the number of dead letters in the list.' },
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

/** Schemas of the event data of `GET /tasks/events`, by event name. */
export const taskEvents = {
  accepted: ref('QueuedTask'),
  started: ref('RunningTask'),
  progress: ref('RunningTask'),
  retrying: ref('RetryingTask'),
  completed: taskState('', 'completed'),
  cancelled: taskState('', 'cancelled'),
  failed: taskState('', 'failed', { reason, attempts }, FAILURE),
  gap: strictObject(
    'Events were missed because they are no longer stored.',
    { missed: Type.Union([count, Type.Null()], { description: 'number of missed events; null if unknown' }) },
    { missed: 12 },
    { missed: null },
  ),
};

/** Example of a server-sent event of `GET /tasks/events`, in wire format. */
export const EVENT_EXAMPLE = `id: 17\nevent: started\ndata: {"id":"${ID}","status":"running","attempt":1}\n\n`;

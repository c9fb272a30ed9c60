import Type, { type TProperties } from 'typebox';

/** Returns a reference to the schema `name` of the OpenAPI document. */
export function ref(name: string) {
  return Type.Ref(`#/components/schemas/${name}`);
}

export const strict = { additionalProperties: false } as const;
const count = Type.Integer({ minimum: 0 });
export const unixSeconds = Type.Integer({ minimum: 0, description: 'Unix seconds' });

/** Returns the schema of an object that has no fields besides `properties`. @param description omitted if empty */
export function strictObject(description: string, properties: TProperties, ...examples: object[]) {
  return Type.Object(properties, { ...strict, ...(description !== '' && { description }), examples });
}

const ID = '3f0f4c1e-8f6b-4d7e-9a51-0f4f3c2b1a90';
const QUEUED_AT = 1_790_000_000;
const PAYLOAD = JSON.stringify({ id: ID, action: 'uppercase', data: { text: 'hello' }, created_at: QUEUED_AT });

const taskId = Type.String({ format: 'uuid', description: 'UUID v4, assigned at submission', examples: [ID] });
const payload = Type.String({
  contentMediaType: 'application/json',
  description:
    'JSON text of the submitted task: `id`, `action`, `data`, `created_at`. Numbers are doubles: integers above 2^53 lose precision, `-0` becomes `0`, and numbers above 1.8e308 become `null`',
});
const reason = Type.String({ description: 'why the last attempt failed' });
const attempts = Type.Integer({ minimum: 0, description: 'number of failed attempts' });

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
          '`completed`, because a row is written only on completion. `pending` is the default of the column.',
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
  QueuedTask: strictObject(
    'A task waiting in the queue.',
    { id: taskId, status: Type.Literal('queued') },
    { id: ID, status: 'queued' },
  ),
  RunningTask: strictObject(
    'A task that is running.',
    { id: taskId, status: Type.Literal('running'), attempt: Type.Integer({ minimum: 1 }) },
    { id: ID, status: 'running', attempt: 1 },
  ),
  RetryingTask: strictObject(
    'A task whose last attempt failed and that will be retried.',
    { id: taskId, status: Type.Literal('retrying'), attempts, reason, next_attempt_at: unixSeconds },
    {
      id: ID,
      status: 'retrying',
      attempts: 1,
      reason: 'the thread ended with exit code 1',
      next_attempt_at: QUEUED_AT + 2,
    },
  ),
  FailedTask: strictObject(
    'A dead letter: a task that failed and will not be retried.',
    {
      id: taskId,
      status: Type.Literal('failed'),
      payload,
      reason,
      attempts,
      first_at: Type.Integer({ minimum: 0, description: 'time of acceptance, in Unix seconds' }),
      last_at: Type.Integer({ minimum: 0, description: 'time of dead-lettering, in Unix seconds' }),
    },
    {
      id: ID,
      status: 'failed',
      payload: PAYLOAD,
      reason: 'data.text is no string',
      attempts: 1,
      first_at: QUEUED_AT,
      last_at: QUEUED_AT + 1,
    },
  ),
  TaskList: Type.Object(
    { tasks: Type.Array(ref('Task'), { maxItems: 100 }), count },
    { ...strict, description: 'Newest first. `count` is the number of tasks in the list.' },
  ),
  DeadLetterList: Type.Object(
    { dead_letters: Type.Array(ref('FailedTask'), { maxItems: 100 }), count },
    { ...strict, description: 'Latest first. `count` is the number of dead letters in the list.' },
  ),
  QueueCounts: strictObject(
    'At any time accepted = completed + dead + dropped + waiting + delayed + in_flight.',
    {
      accepted: count,
      completed: count,
      dead: Type.Integer({ minimum: 0, description: 'stored dead letters' }),
      dropped: Type.Integer({ minimum: 0, description: 'dead letters that were purged or evicted' }),
      waiting: count,
      delayed: count,
      bytes: Type.Integer({
        minimum: 0,
        description:
          'memory of the texts of messages that are waiting, delayed or in flight; on several nodes, their size in UTF-8',
      }),
      in_flight: count,
    },
    { accepted: 7, completed: 4, dead: 1, dropped: 0, waiting: 1, delayed: 0, bytes: 228, in_flight: 1 },
  ),
};

/** Schemas of the data of the events in `GET /tasks/events`, by event name. */
export const taskEvents = {
  accepted: ref('QueuedTask'),
  started: ref('RunningTask'),
  retrying: ref('RetryingTask'),
  completed: strictObject('', { id: taskId, status: Type.Literal('completed') }, { id: ID, status: 'completed' }),
  failed: strictObject(
    '',
    { id: taskId, status: Type.Literal('failed'), reason, attempts },
    { id: ID, status: 'failed', reason: 'data.text is no string', attempts: 1 },
  ),
  gap: strictObject(
    'Events were missed because they are no longer stored.',
    { missed: Type.Union([count, Type.Null()], { description: 'number of missed events; null if unknown' }) },
    { missed: 12 },
    { missed: null },
  ),
};

/** Example of a server-sent event of `GET /tasks/events`, in wire format. */
export const EVENT_EXAMPLE = `id: 17\nevent: started\ndata: {"id":"${ID}","status":"running","attempt":1}\n\n`;

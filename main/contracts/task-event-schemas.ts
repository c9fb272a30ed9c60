import Type, { type TProperties } from 'typebox';
import { count, examples, ID, QUEUED_AT, strictObject, taskFields, taskState } from './task-schemas.ts';

const { attempt, progress, attempts, reason, retryProperties } = taskFields;

function eventData(status: string, properties: TProperties = {}, example: object = {}) {
  const fields = { action: eventAction, ...properties, at: eventTime };
  return taskState('', status, fields, { action: 'uppercase', ...example, at: QUEUED_AT * 1000 + 5 });
}

const eventTime = Type.Integer({ minimum: 0, description: 'time of the event in Unix milliseconds' });
const pauseEvent = (description: string) => strictObject(description, { at: eventTime }, { at: QUEUED_AT * 1000 + 5 });

const eventAction = Type.Optional(
  Type.String({
    maxLength: 256,
    description: 'first 256 characters; absent if a node of version 0.1.0 sent the event',
  }),
);

export const taskEvents = {
  accepted: eventData('queued'),
  started: eventData('running', { attempt }, { attempt: 1 }),
  progress: eventData('running', { attempt, progress }, { attempt: 1, progress: examples.PROGRESS }),
  retrying: eventData('retrying', retryProperties, examples.RETRY),
  completed: eventData('completed'),
  cancelled: eventData('cancelled'),
  failed: eventData('failed', { reason, attempts }, examples.FAILURE),
  purged: strictObject(
    'A dead letter was purged, or evicted because of a bound.',
    { id: taskFields.taskId, action: eventAction, at: eventTime },
    { id: ID, action: 'uppercase', at: QUEUED_AT * 1000 + 5 },
  ),
  paused: pauseEvent('The queue was paused.'),
  resumed: pauseEvent('The queue was resumed.'),
  gap: strictObject(
    'Events were missed because they are no longer stored.',
    { missed: Type.Union([count, Type.Null()], { description: 'number of missed events; null if unknown' }) },
    { missed: 12 },
    { missed: null },
  ),
};

export const EVENT_EXAMPLE = `id: 17\nevent: started\ndata: {"id":"${ID}","action":"uppercase","status":"running","attempt":1,"at":${QUEUED_AT}005}\n\n`;

import Type from 'typebox';
import type { ErrorName } from '../http/errors.ts';
import { IDEMPOTENCY_KEY } from '../tasks/http/prepare-submission.ts';
import { jsonBody, type Operations, type Parameter, type PathItem, pathItem } from './path-item.ts';
import { allErrors, json, redirection } from './responses.ts';
import { servers } from './servers.ts';
import { EVENT_EXAMPLE, taskEvents } from './task-event-schemas.ts';
import { ref, strictObject } from './task-schemas.ts';

const TOKEN_ERRORS: readonly ErrorName[] = ['authenticationRequired', 'tokenStoreUnavailable'];

/** Describes a path of the task service. Adds the errors for cross-site writes and missing tokens or permissions. */
export function tasksPath(operations: Operations): PathItem {
  const secured = Object.entries(operations).map(([method, { errors = [], ...details }]) => {
    const refusals: ErrorName[] = method === 'get' ? ['actionNotAllowed'] : ['crossSiteRequest', 'actionNotAllowed'];
    return [method, { ...details, security: [{}, { bearer: [] }], errors: [...errors, ...TOKEN_ERRORS, ...refusals] }];
  });
  const others = allErrors([...TOKEN_ERRORS, 'crossSiteRequest']);
  return pathItem('tasks', [servers.tasks], { ...Object.fromEntries(secured), others });
}

export const id: Parameter = { name: 'id', in: 'path', required: true, schema: Type.String() };

const status: Parameter = {
  name: 'status',
  in: 'query',
  schema: Type.String({ description: 'Only rows with this status.', examples: ['completed'] }),
};

const since: Parameter = {
  name: 'since',
  in: 'query',
  schema: Type.Integer({ minimum: 0, description: 'Unix seconds. Omits this second and all earlier ones.' }),
};

const listedState: Parameter = {
  name: 'state',
  in: 'query',
  required: true,
  schema: Type.Enum(['queued', 'running', 'retrying'], {
    type: 'string',
    description: 'The next to run first, the longest running first, or the next due first.',
  }),
};

const action: Parameter = {
  name: 'action',
  in: 'query',
  schema: Type.String({
    description: 'Only rows with this action, at most 256 characters long when escaped as JSON.',
    examples: ['uppercase'],
  }),
};

const before: Parameter = {
  name: 'before',
  in: 'query',
  schema: Type.String({ description: 'Only rows older than the row of this task, to read the next page.' }),
};

const summary: Parameter = {
  name: 'summary',
  in: 'query',
  schema: Type.String({ description: '`1` returns only the start of payload and result.', examples: ['1'] }),
};

const idempotencyKey: Parameter = {
  name: 'Idempotency-Key',
  in: 'header',
  description:
    'Repeating a submission with the same key within 24 hours returns the same response and does not create a second task.',
  schema: Type.String({ pattern: IDEMPOTENCY_KEY.source }),
};

const prefer: Parameter = {
  name: 'Prefer',
  in: 'header',
  description: '`wait=N` waits up to N whole seconds (30 at most) for the task to finish.',
  schema: Type.String({ examples: ['wait=10'] }),
};

const endedTask = Type.Unsafe({ oneOf: [ref('Task'), ref('FailedTask')] });

const lastEventId: Parameter = {
  name: 'Last-Event-ID',
  in: 'header',
  description:
    'Id of the last event received. The events after it are sent first, or a `gap` event if some are no longer stored.',
  schema: Type.String(),
};

export const queued = json('The task is in the queue.', ref('QueuedTask'), {
  Location: { required: true, description: 'URL of the task', schema: { type: 'string', pattern: '^/tasks/.' } },
});

const paused = (value: boolean) => strictObject('', { paused: Type.Literal(value) }, { paused: value });

export const tasksPaths: Readonly<Record<string, PathItem>> = {
  '/tasks': tasksPath({
    get: {
      operationId: 'listTasks',
      summary: 'The newest 100 stored tasks, or those before a task',
      parameters: [status, action, before, summary],
      responses: { 200: json('Rows, newest first.', Type.Union([ref('TaskList'), ref('TaskSummaryList')])) },
      errors: [
        'statusGivenTwice',
        'actionGivenTwice',
        'actionTooLong',
        'beforeGivenTwice',
        'summaryGivenTwice',
        'beforeUnknown',
        'databaseUnavailable',
        'queryFailed',
        'serverBusy',
      ],
    },
    post: {
      operationId: 'submitTask',
      summary: 'Puts a task into the queue',
      parameters: [idempotencyKey, prefer],
      requestBody: jsonBody(ref('Submission')),
      responses: {
        200: json('The task, which has completed or failed within the `wait` time of `Prefer`.', endedTask, {
          'Preference-Applied': { required: true, schema: { type: 'string', pattern: '^wait=\\d+$' } },
        }),
        202: queued,
      },
      errors: [
        'invalidJson',
        'actionRequired',
        'dataMustBeObject',
        'dataTooDeep',
        'unknownAction',
        'invalidData',
        'invalidIdempotencyKey',
        'idempotencyKeyInUse',
        'bodyTooLarge',
        'idempotencyKeyReused',
        'failedToQueueTask',
        'serverBusy',
      ],
    },
  }),
  '/tasks/events': tasksPath({
    get: {
      operationId: 'watchTasks',
      summary: 'State changes and progress of all tasks, as server-sent events',
      parameters: [lastEventId],
      responses: {
        200: {
          description: 'A stream of events.',
          headers: { 'Cache-Control': { required: true, schema: { type: 'string', pattern: 'no-(store|cache)' } } },
          content: { 'text/event-stream': { schema: Type.String(), example: EVENT_EXAMPLE, 'x-events': taskEvents } },
        },
      },
      errors: ['tooManyConnectionsFromAddress', 'tooManyConnections'],
    },
  }),
  '/tasks/{id}': tasksPath({
    get: {
      operationId: 'getTask',
      summary: 'One task: its row if it is completed, otherwise its state',
      parameters: [id],
      responses: {
        200: json(
          'The task.',
          Type.Union([ref('Task'), ref('WaitingTask'), ref('RunningTask'), ref('RetryingTask'), ref('FailedTask')]),
        ),
        303: redirection('A browser opened the URL: the task on the task board.', '^/\\?task=.'),
      },
      errors: ['taskNotFound', 'databaseUnavailable', 'queryFailed', 'queueUnavailable', 'serverBusy'],
    },
    delete: {
      operationId: 'cancelTask',
      summary: 'Cancels a task',
      parameters: [id],
      responses: {
        202: json('The task is running. Its signal is aborted, then its thread is terminated.', ref('CancellingTask')),
        204: { description: 'The task has left the queue.' },
      },
      errors: ['taskNotFound', 'taskFinished', 'databaseUnavailable', 'queryFailed', 'queueUnavailable'],
    },
  }),
  '/actions': tasksPath({
    get: {
      operationId: 'listActions',
      summary: 'The actions that have a handler',
      responses: { 200: json('The actions.', ref('ActionList')) },
    },
  }),
  '/queue/tasks': tasksPath({
    get: {
      operationId: 'listQueuedTasks',
      summary: 'Up to 100 unfinished tasks in one state; on several nodes, at most two seconds old',
      parameters: [listedState],
      responses: { 200: json('The tasks.', ref('ListedTasks')) },
      errors: ['stateUnknown', 'queueUnavailable', 'serverBusy'],
    },
  }),
  '/queue': tasksPath({
    get: {
      operationId: 'getQueue',
      summary: 'Counts that account for every task, and the state of the queue',
      description: 'With several nodes, the counts describe the whole queue and are at most a second old.',
      responses: { 200: json('The counts and the state.', ref('Queue')) },
    },
  }),
  '/queue/history': tasksPath({
    get: {
      operationId: 'getQueueHistory',
      summary: 'Numbers of events in each of the last 900 seconds',
      description:
        'Seconds before the process started are absent. With several nodes, the events of all nodes are counted, except those that a node missed while it was disconnected.',
      parameters: [since],
      responses: { 200: json('The history.', ref('QueueHistory')) },
      errors: ['invalidSince', 'serverBusy'],
    },
  }),
  '/queue/pause': tasksPath({
    post: {
      operationId: 'pauseQueue',
      summary: 'Stops the processing of tasks on all nodes until the queue is resumed',
      responses: { 200: json('The queue is paused.', paused(true)) },
      errors: ['queueUnavailable'],
    },
  }),
  '/queue/resume': tasksPath({
    post: {
      operationId: 'resumeQueue',
      summary: 'Ends a pause of the queue',
      responses: { 200: json('The queue is not paused.', paused(false)) },
      errors: ['queueUnavailable'],
    },
  }),
};

import Type from 'typebox';
import type { ErrorName } from '../http/errors.ts';
import { IDEMPOTENCY_KEY } from '../tasks/http/submission.ts';
import { getAndHead, guarded, jsonBody, type Operation, operation, type Parameter, type PathItem } from './paths.ts';
import { allErrors, json, unsupportedMethods } from './responses.ts';
import { servers } from './servers.ts';
import { EVENT_EXAMPLE, ref, taskEvents } from './task-schemas.ts';

const TAG = 'tasks';

const TOKEN_ERRORS = ['authenticationRequired', 'tokenStoreUnavailable'] as const satisfies readonly ErrorName[];

/** Describes an operation that needs a token and a permission if `TASKS_REQUIRE_TOKEN=true`. */
function secured(details: Parameters<typeof operation>[0], names: readonly ErrorName[] = []): Operation {
  const security = [{}, { bearer: [] }];
  return operation({ ...details, security }, [...names, ...TOKEN_ERRORS, 'actionNotAllowed']);
}

const id: Parameter = { name: 'id', in: 'path', required: true, schema: Type.String() };

const status: Parameter = {
  name: 'status',
  in: 'query',
  schema: Type.String({ description: 'Only rows with this status.', examples: ['completed'] }),
};

const queued = json('The task is in the queue.', ref('QueuedTask'), {
  Location: { required: true, description: 'URL of the task', schema: { type: 'string', pattern: '^/tasks/.' } },
});

const paths: Readonly<Record<string, PathItem>> = {
  '/tasks': {
    servers: [servers.tasks],
    ...getAndHead(
      secured(
        {
          operationId: 'listTasks',
          tags: [TAG],
          summary: 'The newest 100 stored tasks',
          parameters: [status],
          responses: { 200: json('Rows, newest first.', ref('TaskList')) },
        },
        ['statusGivenTwice', 'databaseUnavailable', 'queryFailed', 'serverBusy'],
      ),
    ),
    post: secured(
      {
        operationId: 'submitTask',
        tags: [TAG],
        summary: 'Puts a task into the queue',
        parameters: [
          {
            name: 'Idempotency-Key',
            in: 'header',
            description:
              'The same submission with the same key within 24 hours gets the same response, and creates no second task.',
            schema: Type.String({ pattern: IDEMPOTENCY_KEY.source }),
          },
          {
            name: 'Prefer',
            in: 'header',
            description: '`wait=N` waits up to N whole seconds (30 at most) for the task to finish.',
            schema: Type.String({ examples: ['wait=10'] }),
          },
        ],
        requestBody: jsonBody(ref('Submission')),
        responses: {
          200: json('The row of the task, which was completed within the `wait` of `Prefer`.', ref('Task'), {
            'Preference-Applied': { required: true, schema: { type: 'string', pattern: '^wait=\\d+$' } },
          }),
          202: queued,
        },
      },
      [
        'invalidJson',
        'actionRequired',
        'dataMustBeObject',
        'dataTooDeep',
        'invalidIdempotencyKey',
        'idempotencyKeyInUse',
        'bodyTooLarge',
        'idempotencyKeyReused',
        'failedToQueueTask',
        'serverBusy',
      ],
    ),
    'x-other-methods': unsupportedMethods('GET', 'HEAD', 'POST'),
  },
  '/tasks/events': {
    servers: [servers.tasks],
    ...getAndHead(
      secured(
        {
          operationId: 'watchTasks',
          tags: [TAG],
          summary: 'State changes of all tasks, as server-sent events',
          parameters: [
            {
              name: 'Last-Event-ID',
              in: 'header',
              description:
                'Id of the last event received. Later events are sent first, or an event `gap` if some are no longer kept.',
              schema: Type.String(),
            },
          ],
          responses: {
            200: {
              description: 'A stream of events.',
              headers: {
                'Cache-Control': { required: true, schema: { type: 'string', pattern: 'no-(store|cache)' } },
              },
              content: {
                'text/event-stream': { schema: Type.String(), example: EVENT_EXAMPLE, 'x-events': taskEvents },
              },
            },
          },
        },
        ['tooManyConnectionsFromAddress', 'tooManyConnections'],
      ),
    ),
    'x-other-methods': unsupportedMethods('GET', 'HEAD'),
  },
  '/tasks/{id}': {
    servers: [servers.tasks],
    ...getAndHead(
      secured(
        {
          operationId: 'getTask',
          tags: [TAG],
          summary: 'One task: its row if it is completed, otherwise its state',
          parameters: [id],
          responses: {
            200: json(
              'The task.',
              Type.Union([ref('Task'), ref('QueuedTask'), ref('RunningTask'), ref('RetryingTask'), ref('FailedTask')]),
            ),
          },
        },
        ['taskNotFound', 'databaseUnavailable', 'queryFailed', 'queueUnavailable', 'serverBusy'],
      ),
    ),
    'x-other-methods': unsupportedMethods('GET', 'HEAD'),
  },
  '/dead-letters': {
    servers: [servers.tasks],
    ...getAndHead(
      secured(
        {
          operationId: 'listDeadLetters',
          tags: [TAG],
          summary: 'The newest 100 dead letters',
          responses: { 200: json('Dead letters, newest first.', ref('DeadLetterList')) },
        },
        ['queueUnavailable', 'serverBusy'],
      ),
    ),
    'x-other-methods': unsupportedMethods('GET', 'HEAD'),
  },
  '/dead-letters/{id}': {
    servers: [servers.tasks],
    delete: secured(
      {
        operationId: 'dropDeadLetter',
        tags: [TAG],
        summary: 'Purges a dead letter',
        parameters: [id],
        responses: { 204: { description: 'The dead letter is deleted.' } },
      },
      ['deadLetterNotFound', 'queueUnavailable'],
    ),
    'x-other-methods': unsupportedMethods('DELETE'),
  },
  '/dead-letters/{id}/retry': {
    servers: [servers.tasks],
    post: secured(
      {
        operationId: 'retryDeadLetter',
        tags: [TAG],
        summary: 'Puts a dead letter back into the queue, with its attempts reset',
        parameters: [id],
        responses: { 202: queued },
      },
      ['deadLetterNotFound', 'failedToQueueTask'],
    ),
    'x-other-methods': unsupportedMethods('POST'),
  },
  '/queue': {
    servers: [servers.tasks],
    ...getAndHead(
      secured({
        operationId: 'getQueue',
        tags: [TAG],
        summary: 'Counts that account for every task',
        responses: { 200: json('The counts.', ref('QueueCounts')) },
      }),
    ),
    'x-other-methods': unsupportedMethods('GET', 'HEAD'),
  },
};

/** Paths of service B, except its browser client. */
export const tasksPaths: Readonly<Record<string, PathItem>> = Object.fromEntries(
  Object.entries(paths).map(([path, item]) => {
    const unlisted = { ...item['x-other-methods'], ...allErrors(TOKEN_ERRORS) };
    return [path, guarded({ ...item, 'x-other-methods': unlisted }, 'writes', ['actionNotAllowed'])];
  }),
);

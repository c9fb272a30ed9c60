import Type from 'typebox';
import { jsonBody, type Parameter } from './path-item.ts';
import { json } from './responses.ts';
import { ref } from './task-schemas.ts';
import { id, queued, tasksPath } from './tasks-paths.ts';

const filters: Parameter[] = [
  {
    name: 'before',
    in: 'query',
    schema: Type.String({ description: 'Only dead letters older than this one, to read the next page.' }),
  },
  { name: 'reason', in: 'query', schema: Type.String({ description: 'Only dead letters with this reason.' }) },
  {
    name: 'summary',
    in: 'query',
    schema: Type.String({ description: '`1` returns only the start of the payload, and no history.', examples: ['1'] }),
  },
];

export const deadLetterPaths = {
  '/dead-letters': tasksPath({
    get: {
      operationId: 'listDeadLetters',
      summary: 'The newest 100 dead letters, or those before a dead letter',
      parameters: filters,
      responses: {
        200: json('Dead letters, newest first.', Type.Union([ref('DeadLetterList'), ref('DeadLetterSummaryList')])),
      },
      errors: [
        'beforeGivenTwice',
        'reasonGivenTwice',
        'summaryGivenTwice',
        'beforeUnknown',
        'queueUnavailable',
        'serverBusy',
      ],
    },
  }),
  '/dead-letters/reasons': tasksPath({
    get: {
      operationId: 'countDeadLetterReasons',
      summary: 'Dead letters counted by their reasons',
      responses: { 200: json('The counts.', ref('DeadLetterReasons')) },
      errors: ['queueUnavailable', 'serverBusy'],
    },
  }),
  '/dead-letters/redrive': tasksPath({
    post: {
      operationId: 'redriveDeadLetters',
      summary:
        'Puts dead letters back into the queue, oldest first, with their attempts reset, until the queue is full',
      requestBody: jsonBody(ref('DeadLetterSelection')),
      responses: { 200: json('The result.', ref('BulkResult')) },
      errors: ['invalidJson', 'selectionRequired', 'bodyTooLarge', 'failedToQueueTask', 'serverBusy'],
    },
  }),
  '/dead-letters/purge': tasksPath({
    post: {
      operationId: 'purgeDeadLetters',
      summary: 'Purges dead letters',
      requestBody: jsonBody(ref('DeadLetterSelection')),
      responses: { 200: json('The result.', ref('BulkResult')) },
      errors: ['invalidJson', 'selectionRequired', 'bodyTooLarge', 'queueUnavailable', 'serverBusy'],
    },
  }),
  '/dead-letters/{id}': tasksPath({
    delete: {
      operationId: 'dropDeadLetter',
      summary: 'Purges a dead letter',
      parameters: [id],
      responses: { 204: { description: 'The dead letter is deleted.' } },
      errors: ['deadLetterNotFound', 'queueUnavailable'],
    },
  }),
  '/dead-letters/{id}/retry': tasksPath({
    post: {
      operationId: 'retryDeadLetter',
      summary: 'Puts a dead letter back into the queue, with its attempts reset',
      parameters: [id],
      responses: { 202: queued },
      errors: ['deadLetterNotFound', 'failedToQueueTask'],
    },
  }),
};

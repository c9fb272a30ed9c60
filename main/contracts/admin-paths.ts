import Type from 'typebox';
import { type OperationDetails, type PathItem, pathItem } from './path-item.ts';
import { errors, json } from './responses.ts';
import { servers } from './servers.ts';
import { ref, strict } from './task-schemas.ts';

export const adminSchemas = {
  Health: Type.Object({ status: Type.Literal('ok') }, { ...strict, examples: [{ status: 'ok' }] }),
  Readiness: Type.Object(
    {
      status: Type.Enum(['ready', 'not ready'], { type: 'string' }),
      checks: Type.Unsafe({
        type: 'object',
        description: 'Checks by name. A warning leaves the process ready.',
        additionalProperties: Type.Object(
          { state: Type.Enum(['ok', 'warning', 'failed'], { type: 'string' }), detail: Type.Optional(Type.String()) },
          strict,
        ),
      }),
    },
    { ...strict, examples: [{ status: 'ready', checks: { 'tasks.db': { state: 'ok' } } }] },
  ),
  Document: Type.Object(
    { info: Type.Object({ title: Type.String(), version: Type.String() }) },
    { description: 'An OpenAPI or AsyncAPI document.' },
  ),
};

/** Describes an admin path, which supports only `GET` and refuses all cross-site requests. */
function adminPath(operationId: string, summary: string, responses: OperationDetails['responses']): PathItem {
  const get: OperationDetails = { operationId, summary, responses, errors: ['crossSiteRequest'] };
  return pathItem('admin', [servers.admin], { get, others: errors(['crossSiteRequest']) });
}

const document = { 200: json('The document.', ref('Document')) };

export const adminPaths: Readonly<Record<string, PathItem>> = {
  '/healthz': adminPath('getHealth', 'Liveness of the process', { 200: json('Alive.', ref('Health')) }),
  '/readyz': adminPath('getReadiness', 'Readiness of both services', {
    200: json('Ready.', ref('Readiness')),
    503: json('Not ready.', ref('Readiness')),
  }),
  '/metrics': adminPath('getMetrics', 'Metrics in the Prometheus text format', {
    200: { description: 'The metrics.', content: { 'text/plain': { schema: Type.String() } } },
  }),
  '/openapi.json': adminPath('getOpenApi', 'This document', document),
  '/asyncapi.json': adminPath('getAsyncApi', 'The messages of the price stream, as AsyncAPI 3.0', document),
};

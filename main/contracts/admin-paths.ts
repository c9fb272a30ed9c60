import Type from 'typebox';
import { getAndHead, guarded, operation, type PathItem } from './paths.ts';
import { json, unsupportedMethods } from './responses.ts';
import { servers } from './servers.ts';
import { ref, strict } from './task-schemas.ts';

const TAG = 'admin';

/** Named schemas of the admin listener. */
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
    { description: 'A document as defined by its specification.' },
  ),
};

const document = (operationId: string, summary: string): PathItem => ({
  servers: [servers.admin],
  ...getAndHead(
    operation({ operationId, tags: [TAG], summary, responses: { 200: json('The document.', ref('Document')) } }),
  ),
  'x-other-methods': unsupportedMethods('GET', 'HEAD'),
});

const paths: Readonly<Record<string, PathItem>> = {
  '/healthz': {
    servers: [servers.admin],
    ...getAndHead(
      operation({
        operationId: 'getHealth',
        tags: [TAG],
        summary: 'Liveness of the process',
        responses: { 200: json('Alive.', ref('Health')) },
      }),
    ),
    'x-other-methods': unsupportedMethods('GET', 'HEAD'),
  },
  '/readyz': {
    servers: [servers.admin],
    ...getAndHead(
      operation({
        operationId: 'getReadiness',
        tags: [TAG],
        summary: 'Readiness of both services',
        responses: { 200: json('Ready.', ref('Readiness')), 503: json('Not ready.', ref('Readiness')) },
      }),
    ),
    'x-other-methods': unsupportedMethods('GET', 'HEAD'),
  },
  '/metrics': {
    servers: [servers.admin],
    ...getAndHead(
      operation({
        operationId: 'getMetrics',
        tags: [TAG],
        summary: 'Metrics in the Prometheus text format',
        responses: { 200: { description: 'The metrics.', content: { 'text/plain': { schema: Type.String() } } } },
      }),
    ),
    'x-other-methods': unsupportedMethods('GET', 'HEAD'),
  },
  '/openapi.json': document('getOpenApi', 'This document'),
  '/asyncapi.json': document('getAsyncApi', 'The messages of the price stream, as AsyncAPI 3.0'),
};

/** Paths of the admin listener. */
export const adminPaths: Readonly<Record<string, PathItem>> = Object.fromEntries(
  Object.entries(paths).map(([path, item]) => [path, guarded(item, 'all')]),
);

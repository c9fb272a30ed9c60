import type { TSchema } from 'typebox';
import type { ErrorName } from '../http/errors.ts';
import { allErrors, type Header, methodNotAllowed, type OpenApiResponse, type OpenApiResponses } from './responses.ts';
import type { Server } from './servers.ts';

interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  security: readonly object[];
  parameters?: Parameter[];
  requestBody?: { required: boolean; content: Record<string, { schema: TSchema }> };
  responses: OpenApiResponses;
}

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  description?: string;
  schema: TSchema;
}

type Method = 'get' | 'head' | 'post' | 'delete' | 'options';

/** OpenAPI's path item object: the operations of a path, by method, and the servers that have the path. */
export interface PathItem extends Partial<Record<Method, Operation>> {
  servers: readonly Server[];
  /** Responses to all methods that the path does not support. */
  'x-other-methods': OpenApiResponses;
}

/** Description of an operation, to which {@link pathItem} adds the tag and the responses for errors. */
export interface OperationDetails extends Omit<Operation, 'tags' | 'security'> {
  /** Names of the operation's own errors, besides the errors that any operation can respond with. */
  errors?: readonly ErrorName[];
  /** OpenAPI security requirements, one of which must be met. None if absent. */
  security?: readonly object[];
}

export type Operations = Partial<Record<Exclude<Method, 'head'>, OperationDetails>>;

/**
 * Returns a path item. Each `GET` also gets a `HEAD` operation with the same headers, unless it is a WebSocket handshake.
 *
 * @param others responses to unsupported methods, besides 405 and the errors that any operation can respond with
 */
export function pathItem(
  tag: string,
  servers: readonly Server[],
  methods: Operations,
  others: OpenApiResponses = {},
): PathItem {
  const operations: Partial<Record<Method, Operation>> = {};
  for (const [method, details] of Object.entries(methods) as [keyof Operations, OperationDetails][]) {
    const { errors, security = [], responses, ...rest } = details;
    const operation = { ...rest, tags: [tag], security, responses: { ...responses, ...allErrors(errors) } };
    operations[method] = operation;
    if (method === 'get' && !('101' in responses)) operations.head = headOf(operation);
  }
  const allowed = Object.keys(operations).filter((method) => method !== 'options');
  const notAllowed = methodNotAllowed(...allowed.map((method) => method.toUpperCase()));
  return { servers, ...operations, 'x-other-methods': { ...notAllowed, ...allErrors(), ...others } };
}

function headOf(get: Operation): Operation {
  const responses = Object.entries(get.responses).map(([status, answer]) => {
    const { content: _, ...withoutBody } = answer as OpenApiResponse;
    return [status, withoutBody];
  });
  return {
    ...get,
    operationId: `${get.operationId}Head`,
    summary: `The headers of \`GET\`: ${get.summary}`,
    responses: Object.fromEntries(responses),
  };
}

/** Describes a required JSON request body. The server ignores its content type. */
export function jsonBody(schema: TSchema): NonNullable<Operation['requestBody']> {
  return { required: true, content: { 'application/json': { schema } } };
}

/** Returns a copy of a path item with `Access-Control-Allow-Origin: *`, for a path that pages of any origin may use. */
export function crossOrigin({ servers, 'x-other-methods': others, ...operations }: PathItem): PathItem {
  const allowed = Object.entries(operations).map(([method, operation]) => [
    method,
    { ...operation, responses: allowOrigin(operation.responses) },
  ]);
  return { servers, ...Object.fromEntries(allowed), 'x-other-methods': allowOrigin(others) };
}

const ALLOW_ORIGIN = 'Access-Control-Allow-Origin';

function allowOrigin(answers: OpenApiResponses): OpenApiResponses {
  const allowed = Object.entries(answers).map(([status, answer]) => {
    if ('$ref' in answer) return [status, answer];
    // Optional on errors, because the response to a request that was refused before it reached the app lacks the header.
    const header: Header = { schema: { type: 'string', const: '*' }, required: Number(status) < 300 };
    const own = answer.headers?.[ALLOW_ORIGIN];
    return [status, { ...answer, headers: { ...answer.headers, [ALLOW_ORIGIN]: own ?? header } }];
  });
  return Object.fromEntries(allowed);
}

/** Response to the CORS preflight of an allowed origin. */
export const corsPreflight: OpenApiResponses = {
  204: { description: 'A CORS preflight of an origin in `CORS_ORIGINS`.' },
};

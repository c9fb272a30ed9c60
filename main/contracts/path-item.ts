import type { TSchema } from 'typebox';
import type { ErrorName } from '../http/errors.ts';
import { mapValues } from './map-values.ts';
import {
  allErrors,
  constant,
  type Header,
  methodNotAllowed,
  type OpenApiResponse,
  type OpenApiResponses,
  optional,
} from './responses.ts';
import type { Server } from './servers.ts';

export interface Parameter {
  name: string;
  in: 'path' | 'query' | 'header';
  required?: boolean;
  description?: string;
  schema: TSchema;
}

/** OpenAPI operation without its tag and the error responses common to all operations. */
export interface OperationDetails {
  operationId: string;
  summary: string;
  description?: string;
  parameters?: Parameter[];
  requestBody?: ReturnType<typeof jsonBody>;
  responses: OpenApiResponses;
  /** Names of errors besides the errors common to all operations. */
  errors?: readonly ErrorName[];
  /** Alternative security requirements, of which a request must meet one. If undefined, there are none. */
  security?: readonly object[];
}

type Operation = Omit<OperationDetails, 'errors'> & { tags: string[] };
type Method = 'get' | 'head' | 'post' | 'delete' | 'options';

export interface PathItem extends Partial<Record<Method, Operation>> {
  servers: readonly Server[];
  'x-other-methods': OpenApiResponses;
}

export type Operations = Partial<Record<Exclude<Method, 'head'>, OperationDetails>>;

export interface PathDetails extends Operations {
  /** Responses to unsupported methods, besides 405 and the errors common to all operations. */
  others?: OpenApiResponses;
  anyOrigin?: boolean;
}

/** Builds an OpenAPI path item. Adds a `HEAD` operation for each `GET` operation, except for a WebSocket handshake. */
export function pathItem(tag: string, servers: readonly Server[], details: PathDetails): PathItem {
  const { others, anyOrigin, ...methods } = details;
  const complete = (answers: OpenApiResponses) => (anyOrigin ? allowAnyOrigin(answers) : answers);
  const operations: Partial<Record<Method, Operation>> = {};
  for (const [method, { errors, security = [], ...rest }] of Object.entries(methods) as [Method, OperationDetails][]) {
    const responses = complete({ ...rest.responses, ...allErrors(errors) });
    operations[method] = { ...rest, tags: [tag], security, responses };
    if (method === 'get' && !('101' in responses)) operations.head = headOf(operations[method]);
  }
  const own = Object.keys(operations).filter((method) => method !== 'options');
  const isStream = operations.get !== undefined && '101' in operations.get.responses;
  const allowed = [...own.map((method) => method.toUpperCase()), ...(isStream ? [] : ['OPTIONS'])];
  const toOptions = 'options' in operations ? {} : { 204: optionsAnswer(allowed) };
  const otherMethods = { ...toOptions, ...methodNotAllowed(...allowed), ...allErrors(), ...others };
  return { servers, ...operations, 'x-other-methods': complete(otherMethods) };
}

/** `Allow` is optional, because the response to a CORS preflight lacks the header. */
function optionsAnswer(allowed: readonly string[]): OpenApiResponse {
  return {
    description: 'The response to `OPTIONS`, or to the CORS preflight from an origin in `CORS_ORIGINS`.',
    headers: { Allow: optional(constant(allowed.join(', '))) },
  };
}

function headOf(get: Operation): Operation {
  return {
    ...get,
    operationId: `${get.operationId}Head`,
    summary: `The headers of \`GET\`: ${get.summary}`,
    responses: mapValues(get.responses as Record<string, OpenApiResponse>, ({ content: _, ...headOnly }) => headOnly),
  };
}

export function jsonBody(schema: TSchema) {
  return { required: true, content: { 'application/json': { schema } } };
}

const ALLOW_ORIGIN = 'Access-Control-Allow-Origin';

function allowAnyOrigin(answers: OpenApiResponses): OpenApiResponses {
  return mapValues(answers, (answer, status) => {
    if ('$ref' in answer) return answer;
    // Not required in error responses, because errors sent before the Koa app runs lack the CORS header.
    const header: Header = { schema: { type: 'string', const: '*' }, required: Number(status) < 300 };
    const own = answer.headers?.[ALLOW_ORIGIN];
    return { ...answer, headers: { ...answer.headers, [ALLOW_ORIGIN]: own ?? header } };
  });
}

import type { TSchema } from 'typebox';
import type { ErrorName } from '../http/errors.ts';
import { allErrors, errors, type Header, type OpenApiResponse, type OpenApiResponses } from './responses.ts';

export interface Operation {
  operationId: string;
  tags: string[];
  summary: string;
  description?: string;
  security?: object[];
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

const METHODS = ['get', 'head', 'post', 'delete', 'options'] as const;

/** OpenAPI's path item object. */
export interface PathItem extends Partial<Record<(typeof METHODS)[number], Operation>> {
  servers: readonly Server[];
  /** Responses to all methods that the path does not support. */
  'x-other-methods': OpenApiResponses;
}

export interface Server {
  url: string;
  description: string;
}

/** Returns a required JSON request body. Its content type is ignored by the server. */
export function jsonBody(schema: TSchema): NonNullable<Operation['requestBody']> {
  return { required: true, content: { 'application/json': { schema } } };
}

/** Returns an operation, with the responses for its errors and for the errors of every operation added. */
export function operation(
  { responses, security = [], ...rest }: Omit<Operation, 'responses'> & { responses: OpenApiResponses },
  names: readonly ErrorName[] = [],
): Operation {
  return { ...rest, security, responses: { ...responses, ...allErrors(names) } };
}

/** Returns `GET`, and a `HEAD` with the same headers and no response body. */
export function getAndHead(get: Operation): { get: Operation; head: Operation } {
  const responses = Object.entries(get.responses).map(([status, answer]) => [status, withoutBody(answer)]);
  const operationId = `${get.operationId}Head`;
  const summary = `The headers of \`GET\`: ${get.summary}`;
  return { get, head: { ...get, operationId, summary, responses: Object.fromEntries(responses) } };
}

/** Adds `Access-Control-Allow-Origin: *` to the responses of a path that pages of any origin may use. */
export function crossOrigin(item: PathItem): PathItem {
  const result: PathItem = { ...item };
  for (const method of METHODS) {
    const operation = item[method];
    if (operation !== undefined) result[method] = { ...operation, responses: allowOrigin(operation.responses) };
  }
  result['x-other-methods'] = allowOrigin(item['x-other-methods']);
  return result;
}

/**
 * A path that refuses cross-site requests: those of methods other than `GET` and `HEAD`, or all of them.
 *
 * @param names other errors of its operations with the same status
 */
export function guarded(item: PathItem, refused: 'writes' | 'all', names: readonly ErrorName[] = []): PathItem {
  const refusals = errors(['crossSiteRequest', ...names]);
  const result: PathItem = { ...item };
  for (const method of METHODS) {
    const operation = item[method];
    if (operation === undefined || (refused === 'writes' && (method === 'get' || method === 'head'))) continue;
    const refusal = Object.entries(refusals).map(([status, answer]) => [
      status,
      method === 'head' ? withoutBody(answer) : answer,
    ]);
    result[method] = { ...operation, responses: { ...operation.responses, ...Object.fromEntries(refusal) } };
  }
  result['x-other-methods'] = { ...item['x-other-methods'], ...crossSiteRefusal, ...corsPreflight };
  return result;
}

const crossSiteRefusal = errors(['crossSiteRequest']);

/** Response to the CORS preflight of an allowed origin. */
export const corsPreflight: OpenApiResponses = {
  204: { description: 'A CORS preflight of an origin in `CORS_ORIGINS`.' },
};

const ALLOW_ORIGIN = 'Access-Control-Allow-Origin';
const anyOrigin: Header = { schema: { type: 'string', const: '*' } };

function allowOrigin(answers: OpenApiResponses): OpenApiResponses {
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => {
      if ('$ref' in answer) return [status, answer];
      // Not required on errors, because requests refused before they reach the app lack the header.
      const header = { ...anyOrigin, required: Number(status) < 300 };
      const own = answer.headers?.[ALLOW_ORIGIN];
      return [status, { ...answer, headers: { ...answer.headers, [ALLOW_ORIGIN]: own ?? header } }];
    }),
  );
}

function withoutBody(answer: OpenApiResponses[string]): OpenApiResponses[string] {
  if ('$ref' in answer) return answer;
  const { content: _, ...rest } = answer as OpenApiResponse;
  return rest;
}

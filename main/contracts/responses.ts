import type { TSchema } from 'typebox';
import { catalogue, type ErrorName } from '../http/errors.ts';
import { apiHeaders } from '../http/security-headers.ts';
import { mapValues } from './map-values.ts';
import type { ServiceName } from './servers.ts';

type Headers = Readonly<Record<string, Header>>;

/** OpenAPI responses object: response objects by status. */
export type OpenApiResponses = Readonly<Record<string, OpenApiResponse | { $ref: string }>>;

export interface OpenApiResponse {
  description: string;
  headers?: Readonly<Record<string, Header | { $ref: string }>>;
  content?: Readonly<Record<string, MediaType>>;
}

export interface MediaType {
  schema: TSchema;
  example?: unknown;
  /** Schemas of server-sent event data, by event name. */
  'x-events'?: Readonly<Record<string, TSchema>>;
}

export interface Header {
  description?: string;
  required?: boolean;
  schema?: object;
  content?: Readonly<Record<string, MediaType>>;
}

export function constant(value: string): Header {
  return { required: true, schema: { type: 'string', const: value } };
}

export function optional(header: Header): Header {
  return { ...header, required: false };
}

const retryAfter: Header = {
  description: 'Seconds after which the client should retry.',
  required: true,
  schema: { type: 'integer', minimum: 1 },
};

/** Headers of every JSON response, as reusable components of the OpenAPI document. */
export const apiHeaderComponents: Headers = mapValues(apiHeaders, constant);

const dataHeaderRefs = mapValues(apiHeaders, (_, name) => ({ $ref: `#/components/headers/${name}` }));

/** Describes a response with a JSON body. @param headers headers in addition to those of every JSON response */
export function json(description: string, schema: TSchema, headers: Headers = {}): OpenApiResponse {
  return { description, headers: { ...dataHeaderRefs, ...headers }, content: { 'application/json': { schema } } };
}

/** Headers sent only with certain errors, by error name. */
const errorHeaders: Partial<Record<ErrorName, Headers>> = {
  authenticationRequired: { 'WWW-Authenticate': constant('Bearer') },
  invalidHandshake: { 'Sec-WebSocket-Version': constant('13') },
  idempotencyKeyInUse: { 'Retry-After': retryAfter },
  upgradeRequired: { Upgrade: constant('websocket') },
  tooManyRequests: { 'Retry-After': retryAfter },
  tooManyConnectionsFromAddress: { 'Retry-After': retryAfter },
  tooManyConnections: { 'Retry-After': retryAfter },
  serverBusy: { 'Retry-After': retryAfter },
  // `Retry-After` is sent only if the queue is full.
  failedToQueueTask: { 'Retry-After': optional(retryAfter) },
};

/** Additional fields of the responses for certain errors, by error name. */
const errorFields: Partial<Record<ErrorName, Readonly<Record<string, object>>>> = {
  invalidData: {
    path: { type: 'string', description: 'JSON Pointer of the first wrong field within `data`' },
    detail: { type: 'string', description: 'what is wrong with this field' },
  },
};

/** Describes one response for several errors with the same status. @param further headers in addition to the errors' own */
function errorAnswer(names: readonly ErrorName[], further: Headers): OpenApiResponse {
  const texts = names.map((name) => catalogue[name][1]);
  const fields = Object.assign({}, ...names.map((name) => errorFields[name]));
  const own = names.flatMap((name) => Object.entries(errorHeaders[name] ?? {}));
  const sent = own.map(([name, header]) => [name, names.length === 1 ? header : optional(header)]);
  const headers: Headers = { ...further, ...Object.fromEntries(sent) };
  const schema = {
    type: 'object',
    properties: { error: { type: 'string', enum: texts }, ...fields },
    required: ['error'],
    additionalProperties: false,
    examples: texts.map((error) => ({ error })),
  };
  return json(texts.map((text) => `\`${text}\``).join(', '), schema as TSchema, headers);
}

/** Describes the responses for the errors in `names`, by status. @param headers additional headers of each response */
export function errors(names: readonly ErrorName[], headers: Headers = {}): OpenApiResponses {
  const byStatus = Map.groupBy(new Set(names), (name) => catalogue[name][0]);
  return Object.fromEntries([...byStatus].map(([status, same]) => [String(status), errorAnswer(same, headers)]));
}

/** Describes the 405 response to methods that a path does not support, with the `allowed` methods in `Allow`. */
export function methodNotAllowed(...allowed: string[]): OpenApiResponses {
  return errors(['methodNotAllowed'], { Allow: constant(allowed.join(', ')) });
}

/** Errors that any operation can respond with: those sent before the request reaches the app, and internal errors. */
const ALWAYS: readonly ErrorName[] = [
  'badRequest',
  'requestTimeout',
  'expectationFailed',
  'hostNotAllowed',
  'headersTooLarge',
  'internalError',
];

/** Errors that do not share their status with another error. Their responses are reusable components of the document. */
const UNIQUE = ['requestTimeout', 'bodyTooLarge', 'expectationFailed', 'hostNotAllowed', 'headersTooLarge'] as const;

export const errorComponents: Readonly<Record<string, OpenApiResponse>> = Object.fromEntries(
  UNIQUE.map((name) => [name, errorAnswer([name], {})]),
);

const componentRefs: OpenApiResponses = Object.fromEntries(
  UNIQUE.map((name) => [catalogue[name][0], { $ref: `#/components/responses/${name}` }]),
);

/** Returns the error responses, keyed by status: those in `names`, and those common to all operations. */
export function allErrors(names: readonly ErrorName[] = []): OpenApiResponses {
  return mapValues(errors([...ALWAYS, ...names]), (answer, status) => componentRefs[status] ?? answer);
}

/** Marks `answers` as sent only by the services in `names`, for a path that several services serve. */
export function onlyAt(names: readonly ServiceName[], answers: OpenApiResponses): OpenApiResponses {
  return mapValues(answers, (answer) => ({ ...answer, 'x-servers': names }));
}

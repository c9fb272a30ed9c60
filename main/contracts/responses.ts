import type { TSchema } from 'typebox';
import { catalogue, type ErrorName } from '../http/errors.ts';
import { apiHeaders } from '../http/security-headers.ts';
import { mapValues } from './map-values.ts';
import type { ServiceName } from './servers.ts';

type Headers = Readonly<Record<string, Header>>;

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

export const apiHeaderComponents: Headers = mapValues(apiHeaders, constant);

const dataHeaderRefs = mapValues(apiHeaders, (_, name) => ({ $ref: `#/components/headers/${name}` }));

/** Describes a JSON response. @param headers headers besides those of every JSON response */
export function json(description: string, schema: TSchema, headers: Headers = {}): OpenApiResponse {
  return { description, headers: { ...dataHeaderRefs, ...headers }, content: { 'application/json': { schema } } };
}

/** Returns a redirection without a body. @param location pattern of the header `Location` */
export function redirection(description: string, location: string): OpenApiResponse {
  const header: Header = { required: true, schema: { type: 'string', pattern: location } };
  return { description, headers: { ...dataHeaderRefs, Location: header } };
}

const errorHeaders: Partial<Record<ErrorName, Headers>> = {
  authenticationRequired: { 'WWW-Authenticate': constant('Bearer') },
  invalidHandshake: { 'Sec-WebSocket-Version': constant('13') },
  idempotencyKeyInUse: { 'Retry-After': retryAfter },
  upgradeRequired: { Upgrade: constant('websocket') },
  tooManyRequests: { 'Retry-After': retryAfter },
  tooManyConnectionsFromAddress: { 'Retry-After': retryAfter },
  tooManyConnections: { 'Retry-After': retryAfter },
  serverBusy: { 'Retry-After': retryAfter },
  // Optional, because `Retry-After` is sent only if the queue is full.
  failedToQueueTask: { 'Retry-After': optional(retryAfter) },
};

const errorFields: Partial<Record<ErrorName, Readonly<Record<string, object>>>> = {
  invalidData: {
    path: { type: 'string', description: 'JSON Pointer of the first wrong field within `data`' },
    detail: { type: 'string', description: 'what is wrong with this field' },
  },
};

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

/** Describes the 405 response, whose `Allow` header lists the `allowed` methods. */
export function methodNotAllowed(...allowed: string[]): OpenApiResponses {
  return errors(['methodNotAllowed'], { Allow: constant(allowed.join(', ')) });
}

const COMMON_ERRORS: readonly ErrorName[] = [
  'badRequest',
  'requestTimeout',
  'expectationFailed',
  'hostNotAllowed',
  'headersTooLarge',
  'internalError',
];

/** Errors whose status belongs to no other error. Their responses are reusable OpenAPI components. */
const UNIQUE = ['requestTimeout', 'bodyTooLarge', 'expectationFailed', 'hostNotAllowed', 'headersTooLarge'] as const;

export const errorComponents: Readonly<Record<string, OpenApiResponse>> = Object.fromEntries(
  UNIQUE.map((name) => [name, errorAnswer([name], {})]),
);

const componentRefs: OpenApiResponses = Object.fromEntries(
  UNIQUE.map((name) => [catalogue[name][0], { $ref: `#/components/responses/${name}` }]),
);

/** Describes the responses for the errors in `names` and the errors common to all operations, by status. */
export function allErrors(names: readonly ErrorName[] = []): OpenApiResponses {
  return mapValues(errors([...COMMON_ERRORS, ...names]), (answer, status) => componentRefs[status] ?? answer);
}

/** Marks responses as sent only by the services in `names`, for paths that several services share. */
export function onlyAt(names: readonly ServiceName[], answers: OpenApiResponses): OpenApiResponses {
  return mapValues(answers, (answer) => ({ ...answer, 'x-servers': names }));
}

import type { TSchema } from 'typebox';
import { catalogue, type ErrorName } from '../http/errors.ts';
import { dataHeaders } from '../http/security-headers.ts';

/** Answers of the contract: OpenAPI's response objects, by status. */
export type Answers = Readonly<Record<string, Answer | { $ref: string }>>;

export interface Answer {
  description: string;
  headers?: Readonly<Record<string, Header | { $ref: string }>>;
  content?: Readonly<Record<string, MediaType>>;
}

export interface MediaType {
  schema: TSchema;
  example?: unknown;
  /** Of a stream of server-sent events: the schema of each event's data, by its name. */
  'x-events'?: Readonly<Record<string, TSchema>>;
}

export interface Header {
  description?: string;
  required?: boolean;
  schema?: object;
  content?: Readonly<Record<string, MediaType>>;
}

const JSON_TYPE = 'application/json';

/** A header that always has the same value. */
export function constant(value: string): Header {
  return { required: true, schema: { type: 'string', const: value } };
}

/** The same header where it is not always sent. */
export function optional(header: Header): Header {
  return { ...header, required: false };
}

export const retryAfter: Header = {
  description: 'Seconds after which a client does well to try again.',
  required: true,
  schema: { type: 'integer', minimum: 1 },
};

/** The headers of every answer that is data, as the document's components. */
export const dataHeaderComponents: Readonly<Record<string, Header>> = Object.fromEntries(
  Object.entries(dataHeaders).map(([name, value]) => [name, constant(value)]),
);

const dataHeaderRefs = Object.fromEntries(
  Object.keys(dataHeaders).map((name) => [name, { $ref: `#/components/headers/${name}` }]),
);

/** An answer with a JSON body. */
export function json(description: string, schema: TSchema, headers: Readonly<Record<string, Header>> = {}): Answer {
  return { description, headers: { ...dataHeaderRefs, ...headers }, content: { [JSON_TYPE]: { schema } } };
}

/** What certain errors have in their headers, beside what the path itself adds. */
const errorHeaders: Partial<Record<ErrorName, Readonly<Record<string, Header>>>> = {
  authenticationRequired: { 'WWW-Authenticate': constant('Bearer') },
  invalidHandshake: { 'Sec-WebSocket-Version': constant('13') },
  idempotencyKeyInUse: { 'Retry-After': retryAfter },
  upgradeRequired: { Upgrade: constant('websocket') },
  tooManyRequests: { 'Retry-After': retryAfter },
  tooManyConnectionsFromAddress: { 'Retry-After': retryAfter },
  tooManyConnections: { 'Retry-After': retryAfter },
  serverBusy: { 'Retry-After': retryAfter },
  // Only where the queue is full.
  failedToQueueTask: { 'Retry-After': optional(retryAfter) },
};

/** The answer to any of some errors that have the same status. */
function errorAnswer(names: readonly ErrorName[], further: Readonly<Record<string, Header>>): Answer {
  const texts = names.map((name) => catalogue[name][1]);
  const headers: Record<string, Header> = { ...further };
  for (const name of names) {
    for (const [header, value] of Object.entries(errorHeaders[name] ?? {})) {
      headers[header] = names.length === 1 ? value : optional(value);
    }
  }
  const schema = {
    type: 'object',
    properties: { error: { type: 'string', enum: texts } },
    required: ['error'],
    additionalProperties: false,
    examples: texts.map((error) => ({ error })),
  };
  return json(texts.map((text) => `\`${text}\``).join(', '), schema as TSchema, headers);
}

/** The answers to some errors, by status. @param headers that all of them have */
export function errors(names: readonly ErrorName[], headers: Readonly<Record<string, Header>> = {}): Answers {
  const byStatus = Map.groupBy(new Set(names), (name) => catalogue[name][0]);
  return Object.fromEntries([...byStatus].map(([status, same]) => [String(status), errorAnswer(same, headers)]));
}

/** The answer to a method that a path does not have. */
export function methodNotAllowed(...allowed: string[]): Answers {
  return errors(['methodNotAllowed'], { Allow: constant(allowed.join(', ')) });
}

/** What any request may be answered with before it is looked at, or because of a bug. */
const ALWAYS = [
  'badRequest',
  'requestTimeout',
  'expectationFailed',
  'hostNotAllowed',
  'headersTooLarge',
  'internalError',
] as const;

/** Those of them, and of a body that is too large, that have their status to themselves: the document's components. */
export const errorComponents: Readonly<Record<string, Answer>> = Object.fromEntries(
  (['requestTimeout', 'bodyTooLarge', 'expectationFailed', 'hostNotAllowed', 'headersTooLarge'] as const).map(
    (name) => [name, errorAnswer([name], {})],
  ),
);

const componentOf = new Map<string, { $ref: string }>(
  Object.keys(errorComponents).map((name) => [
    String(catalogue[name as ErrorName][0]),
    { $ref: `#/components/responses/${name}` },
  ]),
);

/** The answers to the errors of one operation, and to those that every operation has. */
export function allErrors(names: readonly ErrorName[] = []): Answers {
  const answers = errors([...ALWAYS, ...names]);
  return Object.fromEntries(
    Object.entries(answers).map(([status, answer]) => [status, componentOf.get(status) ?? answer]),
  );
}

/** What every method is answered with that a path does not have. */
export function otherMethods(...allowed: string[]): Answers {
  return { ...methodNotAllowed(...allowed), ...allErrors() };
}

import { Ajv2020, type ValidateFunction } from 'ajv/dist/2020.js';
import { fullFormats } from 'ajv-formats/dist/formats.js';
import { describePrices } from '../../main/admin/api-documents.ts';
import { defaultSymbols, symbolNames, type TickerSymbol } from '../../workers/shared/symbols.ts';
import { readContract } from '../../www/read-contract.ts';

export const serviceNames = ['ticker', 'tasks', 'admin'] as const;
export type ServiceName = (typeof serviceNames)[number];

type Described<Value> = Readonly<Record<string, Value>>;

type Reference = { $ref: string };
type MediaType = { schema: object; 'x-events'?: Described<object> };
type Header = { required?: boolean; schema?: { type?: string }; content?: Described<MediaType> };

export interface Response {
  description: string;
  headers?: Described<Header | Reference>;
  content?: Described<MediaType>;
  'x-servers'?: readonly ServiceName[];
}

type Responses = Described<Response | Reference>;
type Operation = { parameters?: readonly { name: string; schema: object }[]; responses: Responses };
type Server = { url: string; 'x-name': ServiceName };

const METHODS = ['get', 'head', 'post', 'put', 'delete', 'options'] as const;

interface PathItem extends Partial<Record<(typeof METHODS)[number], Operation>> {
  servers: readonly Server[];
  'x-other-methods': Responses;
}

interface OpenApi {
  servers: Server[];
  paths: Described<PathItem>;
  components: { schemas: { TokenRequest: object; Submission: { properties: { action: { description: string } } } } };
}

interface AsyncApi {
  info: { description: string };
  servers: { ticker: { host: string } };
  channels: Described<{ messages: Described<Reference> }>;
  operations: Described<{ action: 'send' | 'receive'; messages: Reference[]; reply?: { messages: Reference[] } }>;
  components: { messages: Described<{ payload: object; examples: { payload: object }[] }> };
}

export const openApi = readContract('openapi') as unknown as OpenApi;
export const asyncApi = readContract('asyncapi') as unknown as AsyncApi;

export interface Answered {
  service: ServiceName;
  /** Request of the response. If undefined, the response must match any operation. */
  request: { method: string; path: string } | undefined;
  status: number;
  headers: Headers;
  body: string;
}

const ajv = new Ajv2020({ strict: true, allErrors: true, formats: fullFormats });
ajv.addVocabulary(['openapi', 'asyncapi', 'info', 'servers', 'tags', 'paths', 'components', 'defaultContentType']);
ajv.addVocabulary(['channels', 'operations']);
ajv.addSchema({ ...openApi, $id: 'openapi' }, undefined, undefined, false);

const compiled = new WeakMap<object, ValidateFunction>();

/** Returns a schema whose references lead to the OpenAPI document. */
const absolute = (schema: object) => JSON.parse(JSON.stringify(schema).replaceAll('"$ref":"#/', '"$ref":"openapi#/'));

export function mismatch(schema: object, value: unknown): string | undefined {
  const validate = compiled.get(schema) ?? ajv.compile(absolute(schema));
  compiled.set(schema, validate);
  return validate(value) ? undefined : ajv.errorsText(validate.errors);
}

/** Names of the components of the messages that the server sends, by subprotocol and type. */
export const sentMessages: Described<Record<string, string>> = { 'ticker.v1': {}, 'ticker.v2': {} };
for (const { action, messages, reply } of Object.values(asyncApi.operations)) {
  for (const { $ref } of action === 'send' ? messages : (reply?.messages ?? [])) {
    const [, , protocol = '', , type = ''] = $ref.split('/');
    const component = asyncApi.channels[protocol]?.messages[type]?.$ref.replace(/.*\//, '');
    Object.assign(sentMessages[protocol] ?? {}, { [type]: component });
  }
}

const streams = new Map<string, AsyncApi>();

function streamOf(symbols: readonly TickerSymbol[]): AsyncApi {
  const names = symbolNames(symbols);
  const stream = streams.get(names) ?? describePrices(asyncApi, symbols);
  streams.set(names, stream);
  return stream;
}

/** @throws {Error} if the contract does not describe a text frame of a server with the given symbols */
export function checkFrame(text: string, symbols: readonly TickerSymbol[] = defaultSymbols, protocol = ''): void {
  const message: unknown = parse(text, 'a frame');
  const { type } = (message ?? {}) as { type?: unknown };
  const { messages } = streamOf(symbols).components;
  const schema = messages[sentMessages[protocol || 'ticker.v1']?.[String(type)] ?? '']?.payload;
  if (schema === undefined) throw new Error(`contract: no frame of type ${JSON.stringify(type)} is described`);
  const wrong = mismatch(schema, message);
  if (wrong !== undefined) throw new Error(`contract: frame ${text} is not as described: ${wrong}`);
}

/** Schemas of the data of server-sent events by event name. */
export const events: Described<object> = Object.assign(
  {},
  ...Object.values(openApi.paths)
    .flatMap((item) => Object.values(item.get?.responses ?? {}))
    .flatMap((response) => Object.values(resolve<Response>(response)?.content ?? {}))
    .map((media) => media['x-events']),
);

/** Checks every complete event of a stream. Skips a truncated event at the end. */
function checkEvents(stream: string): void {
  for (const block of stream.split('\n\n').slice(0, -1)) {
    const fields = new Map(block.split('\n').map((line) => line.split(/: ?(.*)/s) as [string, string]));
    // Comments and `retry` fields.
    if (!fields.has('event') && !fields.has('data')) continue;
    const { event = 'message', data = '' } = Object.fromEntries(fields);
    if (!fields.has('id') && event !== 'gap') throw new Error(`contract: event ${event} has no id: ${block}`);
    const schema = events[event];
    if (schema === undefined) throw new Error(`contract: no event ${JSON.stringify(event)} is described`);
    const wrong = mismatch(schema, parse(data, `event ${event}`));
    if (wrong !== undefined) throw new Error(`contract: event ${event} ${data} is not as described: ${wrong}`);
  }
}

/** @throws {Error} if the contract does not describe a response, with the difference in its message */
export function checkAnswer(answered: Answered): void {
  const { service, request, status, body } = answered;
  const all = () => itemsOf(service).flatMap(([, item]) => responsesIn(item));
  const operations = request === undefined ? all() : [responsesTo(service, request)];
  const reasons = operations.map((answers) => problem(answers, answered));
  if (reasons.includes(undefined)) return;
  const reason = [...new Set(reasons)].join(' | ').slice(0, 500);
  const what =
    request === undefined ? `${status}: no operation answers so` : `${request.method} ${request.path} ${status}`;
  throw new Error(`contract: ${service} ${what}: ${reason}; body: ${body.slice(0, 300)}`);
}

function problem(answers: Responses, { service, request, status, headers, body }: Answered): string | undefined {
  const answer = resolve<Response>(answers[status]);
  if (answer === undefined || answer['x-servers']?.includes(service) === false) return 'the status is not described';
  for (const [name, each] of Object.entries(answer.headers ?? {})) {
    const header = resolve<Header>(each) ?? {};
    const value = headers.get(name);
    if (value === null && header.required) return `the header ${name} is missing`;
    const wrong = value === null ? undefined : headerProblem(header, value);
    if (wrong !== undefined) return `the header ${name}: ${value} is not as described: ${wrong}`;
  }
  const bodiless = request?.method === 'HEAD' || answer.content === undefined;
  if (bodiless) return body === '' ? undefined : 'a body is not described';
  return bodyProblem(answer.content ?? {}, headers.get('content-type') ?? '', body);
}

function headerProblem({ schema, content }: Header, value: string): string | undefined {
  if (content !== undefined) return bodyProblem(content, 'application/json', value);
  return mismatch(schema ?? {}, schema?.type === 'integer' ? Number(value) : value);
}

function bodyProblem(content: Described<MediaType>, type: string, body: string): string | undefined {
  const name = type.replace(/;.*/s, '').trim();
  const media = content[name];
  if (media === undefined) return `the content type ${JSON.stringify(type)} is not described`;
  if (media['x-events'] !== undefined) checkEvents(body);
  if (name !== 'application/json') return undefined;
  return mismatch(media.schema, parse(body, 'the body'));
}

/** Returns the responses to a request. The path without parameters takes precedence. */
function responsesTo(service: ServiceName, { method, path }: { method: string; path: string }): Responses {
  const [bare = ''] = path.split(/[?#]/);
  const fitting = itemsOf(service).filter(([template]) => pattern(template).test(bare));
  const [[, item] = []] = fitting.sort(([one], [other]) => parameters(one) - parameters(other));
  const name = METHODS.find((each) => each === method.toLowerCase());
  return (name && item?.[name])?.responses ?? item?.['x-other-methods'] ?? {};
}

export function itemsOf(service: ServiceName): [string, PathItem][] {
  return Object.entries(openApi.paths).filter(([, { servers }]) => servers.some((each) => each['x-name'] === service));
}

/** Returns a pattern for the paths of a template, case-sensitive and without a trailing slash. */
function pattern(template: string): RegExp {
  if (template === '/{path}') return /^/;
  return new RegExp(`^${template.replaceAll('.', '\\.').replaceAll(/\{\w+\}/g, '[^/]+')}$`);
}

function parameters(template: string): number {
  return template === '/{path}' ? Number.POSITIVE_INFINITY : template.split('{').length;
}

export function responsesIn(item: PathItem): Responses[] {
  const own = METHODS.map((method) => item[method]?.responses);
  return [...own, item['x-other-methods']].filter((answers) => answers !== undefined);
}

export function resolve<Value extends object>(value: Value | Reference | undefined): Value | undefined {
  if (value === undefined || !('$ref' in value)) return value;
  const [, , kind = '', name = ''] = value.$ref.split('/');
  return (openApi.components as unknown as Described<Described<Value>>)[kind]?.[name];
}

function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`contract: ${what} is no JSON: ${text.slice(0, 300)}`);
  }
}

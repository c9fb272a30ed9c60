import Type from 'typebox';
import { HISTORY_SECONDS } from '../ticker/price-history.ts';
import { SUBPROTOCOL } from '../ticker/token-auth.ts';
import { RELAY_HEADER } from '../ticker/ws-relay.ts';
import { mapValues } from './map-values.ts';
import { jsonBody, type OperationDetails, type PathItem, pathItem } from './path-item.ts';
import {
  constant,
  errors,
  type Header,
  json,
  methodNotAllowed,
  type OpenApiResponse,
  type OpenApiResponses,
  onlyAt,
  optional,
} from './responses.ts';
import { servers } from './servers.ts';
import { ref, strict, strictObject, unixSeconds } from './task-schemas.ts';

const TAG = 'ticker';

export const tickerSchemas = {
  TokenRequest: Type.Object(
    { api_key: Type.String({ minLength: 1, description: 'The API key of the demo user is in the log.' }) },
    { description: 'Other fields are ignored.', examples: [{ api_key: 'n8xP2kQvL0sT6wYb3hRj9dFgZc5mA7eU' }] },
  ),
  Token: strictObject(
    '',
    {
      token: Type.String({ pattern: '^v3\\.local\\.[A-Za-z0-9_-]+$', description: 'a bearer token' }),
      user_id: Type.String(),
      role: Type.String(),
      expires_in: Type.Integer({ minimum: 1, maximum: 3600, description: 'seconds' }),
    },
    { token: 'v3.local.c29tZSBieXRlcw', user_id: 'demo', role: 'user', expires_in: 3600 },
  ),
  PriceHistory: strictObject(
    'All arrays have the same length. The oldest tick is first.',
    {
      interval_ms: Type.Integer({ minimum: 1, description: 'tick interval in milliseconds' }),
      timestamps: Type.Array(unixSeconds, { maxItems: HISTORY_SECONDS, uniqueItems: true }),
      prices: Type.Record(Type.String(), Type.Array(Type.Number({ minimum: 0 }), { maxItems: HISTORY_SECONDS }), {
        description: 'prices by symbol',
      }),
    },
    { interval_ms: 1000, timestamps: [1_790_000_000, 1_790_000_001], prices: { 'BTC-USD': [42_000, 42_013.37] } },
  ),
  RelayTarget: Type.Object(
    {
      target_pid: Type.String({ description: 'address of the handler of the connection' }),
      metadata: Type.Object({ user_id: Type.String(), auth_time: unixSeconds }, strict),
    },
    { ...strict, examples: [{ target_pid: 'handler-1', metadata: { user_id: 'demo', auth_time: 1_790_000_000 } }] },
  ),
};

export const securitySchemes = {
  bearer: {
    type: 'http',
    scheme: 'bearer',
    description: 'A token from `POST /auth/token`. Service B uses it only if `TASKS_REQUIRE_TOKEN=true`.',
  },
  subprotocol: {
    type: 'apiKey',
    in: 'header',
    name: 'Sec-WebSocket-Protocol',
    description: `For browsers, which cannot set headers: offer \`${SUBPROTOCOL}\` and \`bearer.<token>\`. The server selects \`${SUBPROTOCOL}\`.`,
  },
  token: { type: 'apiKey', in: 'query', name: 'token', description: 'For tools that cannot set headers.' },
};

const anyToken = [{ bearer: [] }, { subprotocol: [] }, { token: [] }];

const switched: OpenApiResponse = {
  description: 'The connection is now a WebSocket. See `asyncapi.json` for its messages.',
  headers: {
    Upgrade: constant('websocket'),
    Connection: constant('Upgrade'),
    'Sec-WebSocket-Accept': { required: true, schema: { type: 'string', pattern: '^[A-Za-z0-9+/]{27}=$' } },
    'Sec-WebSocket-Protocol': optional(constant(SUBPROTOCOL)),
    [RELAY_HEADER]: { required: true, content: { 'application/json': { schema: ref('RelayTarget') } } },
  },
};

/** Response to an `OPTIONS` request that is not a CORS preflight. */
const ALLOW_ONLY = '204 with the header `Allow`';

/** Describes the response to CORS preflights from any origin. @param other response to other `OPTIONS` requests */
function preflight(operationId: string, other: string, responses: OpenApiResponses): OperationDetails {
  return {
    operationId,
    summary: 'Answers the CORS preflight from any origin',
    description: `The response is ${other} if \`Access-Control-Request-Method\` is missing.`,
    parameters: [{ name: 'Access-Control-Request-Method', in: 'header', schema: Type.String() }],
    responses,
  };
}

/** Errors of only the task service: 404 unless `TASKS_REQUIRE_TOKEN` is true, and 403 for cross-site requests. */
const atTasks = onlyAt(['tasks'], errors(['notFound', 'crossSiteRequest']));

const ANY_ORIGIN_METHODS = 'GET,HEAD,PUT,POST,DELETE,PATCH';

const streamPreflight: OpenApiResponse = {
  description: 'The cross-origin request is allowed.',
  headers: {
    'Access-Control-Allow-Methods': constant(ANY_ORIGIN_METHODS),
    'Access-Control-Allow-Headers': { description: 'the requested headers', schema: { type: 'string' } },
  },
};

const tokenPreflight: OpenApiResponse = {
  description: 'The cross-origin request is allowed. Service B echoes an origin that is in `CORS_ORIGINS`.',
  headers: {
    ...streamPreflight.headers,
    'Access-Control-Allow-Origin': { schema: { type: 'string', pattern: '^(\\*|https?://.+)$' } },
    'Access-Control-Allow-Methods': { schema: { type: 'string', enum: [ANY_ORIGIN_METHODS, 'GET,HEAD,POST,DELETE'] } },
  },
};

/** Extends a preflight response to all `OPTIONS` requests: makes its headers optional and adds `Allow`. */
function withAllow({ description, headers }: OpenApiResponse, ...supported: string[]): OpenApiResponse {
  const allowed = { 'Access-Control-Allow-Origin': constant('*'), ...headers } as Readonly<Record<string, Header>>;
  const allow = constant([...supported, 'OPTIONS'].join(', '));
  return { description, headers: { ...mapValues(allowed, optional), Allow: optional(allow) } };
}

export const tickerPaths: Readonly<Record<string, PathItem>> = {
  '/auth/token': pathItem(TAG, [servers.ticker, servers.tasks], {
    anyOrigin: true,
    post: {
      operationId: 'createToken',
      summary: 'Exchanges an API key for a bearer token',
      requestBody: jsonBody(ref('TokenRequest')),
      responses: { 200: json('A token.', ref('Token')), ...atTasks },
      errors: [
        'invalidJson',
        'apiKeyRequired',
        'invalidApiKey',
        'bodyTooLarge',
        'tooManyRequests',
        'databaseUnavailable',
        'lookupFailed',
        'tokenStoreUnavailable',
        'tokenCreationFailed',
        'serverBusy',
      ],
    },
    delete: {
      operationId: 'revokeToken',
      summary: 'Revokes the token of the request and closes its connections',
      security: anyToken,
      responses: { 204: { description: 'The token is revoked.' }, ...atTasks },
      errors: ['authenticationRequired', 'tokenStoreUnavailable'],
    },
    options: preflight('preflightToken', ALLOW_ONLY, { ...atTasks, 204: withAllow(tokenPreflight, 'POST', 'DELETE') }),
    others: atTasks,
  }),
  '/ws/ticker': pathItem(TAG, [servers.ticker], {
    anyOrigin: true,
    get: {
      operationId: 'openStream',
      summary: 'Opens the price stream',
      description: 'A WebSocket handshake, version 13.',
      security: anyToken,
      parameters: [
        { name: 'Sec-WebSocket-Key', in: 'header', schema: Type.String({ pattern: '^[A-Za-z0-9+/]{22}==$' }) },
        { name: 'Sec-WebSocket-Version', in: 'header', schema: Type.String({ const: '13' }) },
      ],
      responses: { 101: switched },
      errors: [
        'invalidHandshake',
        'authenticationRequired',
        'upgradeRequired',
        'tooManyConnectionsFromAddress',
        'failedToCreateHandler',
        'tokenStoreUnavailable',
        'tooManyConnections',
      ],
    },
    options: preflight('preflightStream', '405', { ...methodNotAllowed('GET'), 204: streamPreflight }),
  }),
  '/prices/history': pathItem(TAG, [servers.ticker], {
    anyOrigin: true,
    get: {
      operationId: 'getPriceHistory',
      summary: 'The ticks of the last seconds',
      description: 'Only ticks that were made while the process was running, and the last tick of each second.',
      security: anyToken,
      parameters: [
        {
          name: 'seconds',
          in: 'query',
          schema: Type.Integer({ minimum: 1, maximum: HISTORY_SECONDS, default: HISTORY_SECONDS }),
        },
      ],
      responses: { 200: json('The ticks.', ref('PriceHistory')) },
      errors: ['invalidSeconds', 'authenticationRequired', 'actionNotAllowed', 'tokenStoreUnavailable', 'serverBusy'],
    },
    options: preflight('preflightPriceHistory', ALLOW_ONLY, { 204: withAllow(streamPreflight, 'GET', 'HEAD') }),
  }),
};

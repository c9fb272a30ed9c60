/** Status and message of every error response. The specification defines the entries up to `queryFailed`. */
export const catalogue = {
  invalidJson: [400, 'invalid JSON'],
  apiKeyRequired: [400, 'api_key required'],
  actionRequired: [400, 'action required'],
  invalidApiKey: [401, 'invalid API key'],
  authenticationRequired: [401, 'authentication required'],
  methodNotAllowed: [405, 'method not allowed'],
  databaseUnavailable: [500, 'database unavailable'],
  lookupFailed: [500, 'lookup failed'],
  tokenStoreUnavailable: [500, 'token store unavailable'],
  tokenCreationFailed: [500, 'token creation failed'],
  failedToCreateHandler: [500, 'failed to create handler'],
  failedToQueueTask: [500, 'failed to queue task'],
  queryFailed: [500, 'query failed'],

  badRequest: [400, 'bad request'],
  invalidHandshake: [400, 'invalid WebSocket handshake'],
  invalidIdempotencyKey: [400, 'Idempotency-Key must have 1 to 255 visible characters'],
  dataMustBeObject: [400, 'data must be an object'],
  dataTooDeep: [400, 'data is nested too deeply'],
  invalidQuery: [400, 'invalid query'],
  invalidSince: [400, 'since must be Unix seconds'],
  beforeUnknown: [400, 'before is unknown'],
  stateUnknown: [400, 'state must be queued, limited, scheduled, running or retrying'],
  actionTooLong: [400, 'action must have at most 256 characters, escaped as JSON'],
  invalidSeconds: [400, 'seconds must be a whole number from 1 to 86400'],
  selectionRequired: [400, 'ids, all or a filter required'],
  unknownAction: [400, 'unknown action'],
  invalidDelay: [400, 'delay must be seconds from 0 to 31622400'],
  invalidRunAt: [
    400,
    'run_at must be an ISO 8601 time with an offset or Unix seconds, from a minute ago to 366 days ahead',
  ],
  delayAndRunAt: [400, 'give delay or run_at, not both'],
  tasksRequired: [400, 'tasks must be an array of 1 to 1000 submissions'],
  invalidBatch: [400, 'invalid batch'],
  keyOfBatch: [400, 'give each task of a batch its idempotency_key, not the batch'],
  invalidPriority: [400, 'priority must be a whole number from 1 to 5'],
  invalidLimitKey: [400, 'limit_key must be a text of 1 to 255 characters'],
  invalidCallbackUrl: [400, 'invalid callback_url'],
  invalidData: [400, 'invalid data'],
  unknownOption: [400, 'unknown option'],
  invalidLimits: [400, 'invalid limits'],
  invalidLimitedAction: [400, 'the action of limits must have 1 to 200 characters, percent-encoded as UTF-8'],
  tooManyLimits: [400, 'at most 1000 actions can have limits'],
  invalidTokenRequest: [400, 'invalid token request'],
  invalidSchedule: [400, 'invalid schedule'],
  actionNotAllowed: [403, 'action not allowed'],
  crossSiteRequest: [403, 'cross-site request refused'],
  notFound: [404, 'not found'],
  taskNotFound: [404, 'task not found'],
  limitNotFound: [404, 'limit not found'],
  deadLetterNotFound: [404, 'dead letter not found'],
  scheduleNotFound: [404, 'schedule not found'],
  requestTimeout: [408, 'request timeout'],
  taskFinished: [409, 'task finished'],
  limitsOfModule: [409, 'limits belong to the handlers module'],
  scheduleOfModule: [409, 'schedule belongs to the handlers module'],
  tooManySchedules: [409, 'too many schedules'],
  bodyTooLarge: [413, 'request body too large'],
  expectationFailed: [417, 'expectation failed'],
  hostNotAllowed: [421, 'host not allowed'],
  idempotencyKeyReused: [422, 'this Idempotency-Key belongs to another submission'],
  upgradeRequired: [426, 'upgrade required'],
  tooManyRequests: [429, 'too many requests'],
  tooManyConnectionsFromAddress: [429, 'too many connections from this address'],
  headersTooLarge: [431, 'request headers too large'],
  queueUnavailable: [500, 'queue unavailable'],
  internalError: [500, 'internal error'],
  tooManyConnections: [503, 'too many connections'],
  tokensUnavailable: [503, 'token store unavailable'],
  serverBusy: [503, 'server busy'],
} as const satisfies Record<string, readonly [status: number, text: string]>;

export type ErrorName = keyof typeof catalogue;

/** Error thrown by a request handler. `jsonErrors` sends the JSON response `{error: <message>, ...fields}`. */
export class HttpError extends Error {
  override name = 'HttpError';
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly fields: object | undefined;
  /** Whether only overload caused the error. If so, its log level is `debug`, to avoid flooding the log. */
  readonly overload: boolean;

  constructor(error: ErrorName, details: Partial<Pick<HttpError, 'cause' | 'headers' | 'fields' | 'overload'>> = {}) {
    const { cause, headers = {}, fields, overload = false } = details;
    const [status, text] = catalogue[error];
    super(text, { cause });
    this.status = status;
    this.headers = headers;
    this.fields = fields;
    this.overload = overload;
  }
}

export function authenticationRequired(): HttpError {
  return new HttpError('authenticationRequired', { headers: { 'WWW-Authenticate': 'Bearer' } });
}

export function serverBusy(): HttpError {
  return new HttpError('serverBusy', { headers: { 'Retry-After': '1' }, overload: true });
}

import { type CredentialOptions, Credentials, type Grant } from './credentials.ts';
import { closedClient, ServiceError, UnreachableError } from './errors.ts';
import { abortable, backoff, linkedTo, sleep } from './waiting.ts';

const ATTEMPT_MS = 15_000;
const GIVE_UP_MS = 60_000;

/** The part of a `Response` that the client uses. */
export interface Answer extends Pick<Response, 'ok' | 'status' | 'body' | 'text' | 'json'> {
  headers: Pick<Headers, 'get'>;
}

/** The part of `fetch` that the client uses. */
export type Fetch = (
  url: URL,
  init: { method: string; headers: Record<string, string>; body: string | null; signal: AbortSignal },
) => Promise<Answer>;

export interface Abortable {
  signal?: AbortSignal | undefined;
}

export interface RequestOptions extends Abortable {
  method?: 'GET' | 'POST' | 'PUT' | 'DELETE';
  /** Parameters. Undefined ones are left out. */
  query?: object;
  body?: unknown;
  headers?: Record<string, string>;
  /** Whether a request whose answer was lost can be sent again. By default, `GET` and `PUT` can. */
  isRepeatable?: boolean;
  /** Time limit of one attempt. */
  timeoutMs?: number;
  /** Replaces that of the client. */
  giveUpMs?: number;
}

export interface ClientOptions extends CredentialOptions {
  /** By default the global `fetch`. */
  fetch?: Fetch | undefined;
  /** Time in milliseconds after which a request is not repeated any more, a minute by default. 0 sends each request once. */
  giveUpMs?: number | undefined;
}

/** Requests of a client to a service, with a token, time limits and repeats. */
export class HttpClient {
  readonly credentials: Credentials;
  readonly #base: URL;
  readonly #fetch: Fetch | undefined;
  readonly #giveUpMs: number;
  readonly #life = new AbortController();

  /** @param url base URL of the service; a page may give a relative one */
  constructor(url: string | URL, options: ClientOptions) {
    this.#fetch = options.fetch;
    this.#giveUpMs = options.giveUpMs ?? GIVE_UP_MS;
    this.#base = new URL(url, (globalThis as { location?: { href: string } }).location?.href);
    if (!this.#base.pathname.endsWith('/')) this.#base.pathname += '/';
    this.credentials = new Credentials(options, (apiKey) => {
      const fields = { method: 'POST', body: { api_key: apiKey } } as const;
      return this.#attempt<Grant>(fields, (signal) => this.#send('auth/token', fields, undefined, signal));
    });
  }

  /** Aborted by `close`. */
  get closed(): AbortSignal {
    return this.#life.signal;
  }

  urlOf(path: string): URL {
    return new URL(path, this.#base);
  }

  close(): void {
    this.#life.abort(closedClient());
  }

  /**
   * Sends a request, and again after a transient error, for up to `giveUpMs`, until a response is the answer.
   *
   * @returns the JSON body of the response
   * @throws {ServiceError | UnreachableError} or the reason of the signal or of `close`
   */
  async request<Body>(path: string, options: RequestOptions = {}): Promise<Body> {
    const { method = 'GET', isRepeatable = method === 'GET' || method === 'PUT', giveUpMs = this.#giveUpMs } = options;
    const deadline = performance.now() + giveUpMs;
    for (let failures = 0; ; failures++) {
      try {
        return await this.#attempt(options, (signal) => this.respond(path, options, signal));
      } catch (error) {
        const { retryAfterMs = 0 } = error as Partial<ServiceError>;
        const delayMs = Math.max(retryAfterMs, backoff(failures));
        if (!mayRepeat(error, isRepeatable) || performance.now() + delayMs > deadline) throw error;
        await sleep(delayMs, options.signal, this.closed);
      }
    }
  }

  /**
   * Sends a request once, or twice if the token must be renewed, without a time limit.
   *
   * @returns the response once its headers have arrived, if its status is one of success
   * @throws {ServiceError | UnreachableError} or the reason of the signal
   */
  async respond(path: string, options: RequestOptions, signal: AbortSignal): Promise<Answer> {
    const token = await this.credentials.token();
    try {
      return await this.#send(path, options, token, signal);
    } catch (error) {
      const isRefused = error instanceof ServiceError && error.status === 401;
      if (!isRefused || !(await this.credentials.refuse(token))) throw error;
      return this.#send(path, options, await this.credentials.token(), signal);
    }
  }

  async #send(path: string, options: RequestOptions, token: string | undefined, signal: AbortSignal) {
    const { method = 'GET', query = {}, body = null, headers } = options;
    const url = this.urlOf(path);
    for (const [name, value] of Object.entries(query)) if (value !== undefined) url.searchParams.set(name, value);
    const send = this.#fetch ?? fetch;
    const response = await send(url, {
      method,
      headers: { ...headers, ...(token !== undefined && { Authorization: `Bearer ${token}` }) },
      body: body === null ? body : JSON.stringify(body),
      signal,
    }).catch((cause) => unreachable(cause, signal));
    if (!response.ok) throw await errorOf(response);
    return response;
  }

  /** Sends a request within its time limit, and reads its answer. */
  async #attempt<Body>(options: RequestOptions, send: (signal: AbortSignal) => Promise<Answer>): Promise<Body> {
    const attempt = linkedTo(options.signal, this.closed);
    const { signal } = attempt;
    const { timeoutMs = ATTEMPT_MS } = options;
    const timer = setTimeout(() => {
      attempt.abort(new UnreachableError(`the service did not answer in ${timeoutMs / 1000} s`));
    }, timeoutMs);
    try {
      const response = await abortable(send(signal), signal);
      const text = await response.text().catch((cause) => unreachable(cause, signal));
      return parse(text, response.status);
    } finally {
      clearTimeout(timer);
      // With a reason, because the default is an exception, which takes long to create.
      attempt.abort('settled');
    }
  }
}

async function errorOf(response: Answer): Promise<ServiceError> {
  const body = Object(await response.json().catch(() => ({})));
  const seconds = Number(response.headers.get('Retry-After') ?? Number.NaN);
  return new ServiceError(response.status, body, seconds >= 0 ? seconds * 1000 : undefined);
}

/** Returns the JSON body of a response. Only 204 has none. */
function parse(text: string, status: number) {
  if (status === 204) return undefined;
  let body = null;
  try {
    body = JSON.parse(text || 'null');
  } catch {
    throw new ServiceError(status, { error: 'the answer is not JSON: check the URL' });
  }
  if (body === null) throw new UnreachableError('the answer has no body');
  return body;
}

function unreachable(cause: unknown, signal: AbortSignal): never {
  signal.throwIfAborted();
  throw new UnreachableError('the service cannot be reached', { cause });
}

function mayRepeat(error: unknown, isRepeatable: boolean): boolean {
  if (error instanceof ServiceError) return error.isRefusal || (isRepeatable && error.isTransient);
  return isRepeatable && error instanceof UnreachableError;
}

/** Statuses of the 4xx class after which the same request may succeed. */
const TRANSIENT_STATUSES: readonly number[] = [408, 429];
/** Close codes for a revoked and for an expired token. */
export const TOKEN_CLOSE_CODES: readonly number[] = [4001, 4003];
/** Close codes after which another connection would be closed as well. */
export const FINAL_CLOSE_CODES: readonly number[] = [1002, 1007, 1008, 1009, ...TOKEN_CLOSE_CODES, 4029];

/** Error response of a service. `message` is its text in the catalogue of errors. */
export class ServiceError extends Error {
  override name = 'ServiceError';
  readonly status: number;
  /** Body of the response, which may have further fields, such as `nearest` or `errors`. */
  readonly body: Readonly<Record<string, unknown>>;
  /** JSON Pointer of the first wrong field, if the service names one, and the problem with it. */
  readonly path: string | undefined;
  readonly detail: string | undefined;
  /** Delay from the header `Retry-After`, if any. */
  readonly retryAfterMs: number | undefined;

  constructor(status: number, body: Record<string, unknown>, retryAfterMs?: number) {
    const { error = `status ${status}`, field, path = field && `/${field}`, detail } = body;
    super(String(error));
    this.status = status;
    this.body = body;
    this.path = path as string | undefined;
    this.detail = detail as string | undefined;
    this.retryAfterMs = retryAfterMs;
  }

  /** Whether the same request may succeed later. */
  get isTransient(): boolean {
    return this.status >= 500 || TRANSIENT_STATUSES.includes(this.status);
  }

  /** Whether the service has refused the request before it did anything. */
  get isRefusal(): boolean {
    return this.status === 503 || TRANSIENT_STATUSES.includes(this.status);
  }
}

/** The service could not be reached, or its answer was lost. */
export class UnreachableError extends Error {
  override name = 'UnreachableError';
  readonly isTransient = true;
}

/** A WebSocket was closed. `message` is the reason that the service gave. */
export class ClosedError extends Error {
  override name = 'ClosedError';
  readonly code: number;
  /** Whether another connection may last. */
  readonly isTransient: boolean;

  constructor(code: number, reason: string, isTransient = !FINAL_CLOSE_CODES.includes(code)) {
    super(reason || `closed with code ${code}`);
    this.code = code;
    this.isTransient = isTransient;
  }
}

/** A task failed for good. `message` is the reason of its last attempt. */
export class TaskFailedError extends Error {
  override name = 'TaskFailedError';
  readonly id: string;
  readonly attempts: number;

  constructor(id: string, { reason, attempts }: { reason: string; attempts: number }) {
    super(reason);
    this.id = id;
    this.attempts = attempts;
  }
}

/** A task was cancelled. */
export class TaskCancelledError extends Error {
  override name = 'TaskCancelledError';
  readonly id: string;

  constructor(id: string) {
    super('the task was cancelled');
    this.id = id;
  }
}

/** Reason of everything that `close()` of a client aborts. */
export function closedClient(): DOMException {
  return new DOMException('the client is closed', 'AbortError');
}

import type { Context, Middleware } from 'koa';
import type { Log } from '../log.ts';
import { HttpError } from './errors.ts';
import { replyJson } from './json-reply.ts';

/** The one place that turns what was thrown into an answer: `{error: <string>}` with its status. */
export function jsonErrors(log: Log): Middleware {
  return async (ctx, next) => {
    try {
      await next();
    } catch (error) {
      answer(ctx, error, log);
    }
  };
}

/** Listener for an app's `error` event: what went wrong outside of {@link jsonErrors}, or while a response was sent. */
export function logLateError(log: Log): (error: NodeJS.ErrnoException) => void {
  return (error) => log[CLIENT_GONE.has(error.code ?? '') ? 'debug' : 'error']({ err: error }, 'response not finished');
}

const CLIENT_GONE = new Set([
  'ECONNRESET',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'ERR_STREAM_DESTROYED',
  // Gone before the response began.
  'ERR_STREAM_UNABLE_TO_PIPE',
]);

/** Middleware for the end of an app: whatever got past the routers is not found. */
export const notFound: Middleware = () => {
  throw new HttpError('notFound');
};

function answer(ctx: Context, thrown: unknown, log: Log): void {
  const error = asHttpError(thrown);
  if (error.status >= 500) {
    log[error.overload ? 'debug' : 'error']({ err: thrown, method: ctx.method, path: ctx.path }, error.message);
  }
  ctx.state.error = error.message;
  replyJson(ctx, error.status, { error: error.message }, error.headers);
}

/** What the libraries below throw carries a status, and says with `expose` whether its text is for clients. */
interface LibraryError {
  status: number;
  expose: boolean;
  message: string;
}

function asHttpError(thrown: unknown): Pick<HttpError, 'status' | 'message' | 'headers' | 'overload'> {
  if (thrown instanceof HttpError) return thrown;
  const { status, expose, message } = (thrown ?? {}) as Partial<LibraryError>;
  if (status !== undefined && status >= 400 && status < 500 && expose && message) {
    return { status, message: message.toLowerCase(), headers: {}, overload: false };
  }
  return new HttpError('internalError');
}

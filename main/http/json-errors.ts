import type { Middleware } from 'koa';
import type { Log } from '../log.ts';
import { HttpError } from './errors.ts';
import { replyJson } from './json-reply.ts';

/** Middleware that turns thrown errors into responses: `{error: <string>}` with a status. */
export function jsonErrors(log: Log): Middleware {
  return async (ctx, next) => {
    try {
      await next();
    } catch (thrown) {
      const error = asHttpError(thrown);
      if (error.status >= 500) {
        log[error.overload ? 'debug' : 'error']({ err: thrown, method: ctx.method, path: ctx.path }, error.message);
      }
      ctx.state.error = error.message;
      replyJson(ctx, error.status, { error: error.message }, error.headers);
    }
  };
}

/** Listener for an app's `error` event: errors thrown outside {@link jsonErrors}, or while a response is sent. */
export function logLateError(log: Log): (error: NodeJS.ErrnoException) => void {
  return (error) => log[CLIENT_GONE.has(error.code ?? '') ? 'debug' : 'error']({ err: error }, 'response not finished');
}

/** Error codes of a response whose client has disconnected. */
const CLIENT_GONE = new Set([
  'ECONNRESET',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'ERR_STREAM_DESTROYED',
  // The client disconnected before the response began.
  'ERR_STREAM_UNABLE_TO_PIPE',
]);

/** Last middleware of an app: responds 404 to requests that no router handled. */
export const notFound: Middleware = () => {
  throw new HttpError('notFound');
};

function asHttpError(thrown: unknown): Pick<HttpError, 'status' | 'message' | 'headers' | 'overload'> {
  if (thrown instanceof HttpError) return thrown;
  // Koa and its middleware set `expose` if clients may see the message.
  const { status = 500, expose, message } = (thrown ?? {}) as { status?: number; expose?: boolean; message?: string };
  if (status >= 400 && status < 500 && expose && message) {
    return { status, message: message.toLowerCase(), headers: {}, overload: false };
  }
  return new HttpError('internalError');
}

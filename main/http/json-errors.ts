import type { Middleware } from 'koa';
import type { Log } from '../log.ts';
import { HttpError } from './errors.ts';
import { replyJson } from './json-reply.ts';

/** Returns middleware that converts thrown errors to JSON responses `{error: <message>}` and logs 5xx errors. */
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
      replyJson(ctx, error.status, { error: error.message, ...error.fields }, error.headers);
    }
  };
}

/** Returns an `error` listener for a Koa app, which logs errors that {@link jsonErrors} does not catch. */
export function logLateError(log: Log): (error: NodeJS.ErrnoException) => void {
  return (error) => log[CLIENT_GONE.has(error.code ?? '') ? 'debug' : 'error']({ err: error }, 'response not finished');
}

const CLIENT_GONE = new Set([
  'ECONNRESET',
  'EPIPE',
  'ERR_STREAM_PREMATURE_CLOSE',
  'ERR_STREAM_DESTROYED',
  'ERR_STREAM_UNABLE_TO_PIPE',
]);

export const notFound: Middleware = () => {
  throw new HttpError('notFound');
};

function asHttpError(thrown: unknown): Pick<HttpError, 'status' | 'message' | 'headers' | 'fields' | 'overload'> {
  if (thrown instanceof HttpError) return thrown;
  // Koa sets `expose` on an error whose message may be sent to the client.
  const { status = 500, expose, message } = (thrown ?? {}) as { status?: number; expose?: boolean; message?: string };
  if (status >= 400 && status < 500 && expose && message) {
    return { status, message: message.toLowerCase(), headers: {}, fields: undefined, overload: false };
  }
  return new HttpError('internalError');
}

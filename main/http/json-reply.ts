import type { Middleware, ParameterizedContext } from 'koa';
import type { Awaitable } from '../../db/task-rows.ts';
import type { Log } from '../log/log.ts';
import { HttpError, serverBusy } from './errors.ts';
import type { ByteBudget } from './request-body.ts';

type Headers = Readonly<Record<string, string>>;

/** Prevents browsers from rendering, sniffing or caching JSON responses. */
export const apiHeaders: Headers = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
};

/**
 * Length in characters from which a text is sent as bytes. For a text, Node allocates three times its length until the
 * client has read it.
 */
const LONG_TEXT = 64 * 1024;

/** Encodes a JSON body, ending with a newline so that a shell prompt starts on its own line. */
export function jsonText(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

export const jsonHeaders: Headers = { ...apiHeaders, 'Content-Type': 'application/json; charset=utf-8' };

/** Headers of every JSON response, as alternating names and values, the fastest format for `writeHead`. */
const fixedHeaders = Object.entries(jsonHeaders).flat();

/** Sends a JSON response directly, because Koa's response handling would take most of the time for a small response. */
export function replyJson(ctx: ParameterizedContext, status: number, value: unknown, headers: Headers = {}): void {
  replyText(ctx, status, jsonText(value), headers);
}

/** Sends a JSON response with status 200. Sends nothing and returns false if the response exceeds `budget`. */
export function replyWithin(budget: ByteBudget, ctx: ParameterizedContext, value: unknown, headers: Headers = {}) {
  if (ctx.res.closed) {
    ctx.respond = false;
    return true;
  }
  const text = jsonText(value);
  const bytes = Buffer.byteLength(text);
  if (!budget.take(bytes)) return false;
  ctx.res.once('close', () => budget.release(bytes));
  replyText(ctx, 200, text, headers);
  return true;
}

/** Sends an encoded JSON response like {@link replyJson}. */
export function replyText(ctx: ParameterizedContext, status: number, text: string, headers: Headers = {}): void {
  ctx.respond = false;
  if (ctx.headerSent) return;
  const body = text.length < LONG_TEXT ? text : Buffer.from(text);
  const all = [...fixedHeaders, 'Content-Length', String(Buffer.byteLength(body))];
  for (const name in headers) all.push(name, headers[name] as string);
  ctx.res.writeHead(status, all).end(body);
}

/**
 * Streams the JSON response `{[name]: [...], count}` one item at a time, because all items may not fit in memory. Charges
 * `budget` for each item until the item has been sent. A failure after the response has begun closes the connection.
 *
 * @param read returns undefined if the item no longer exists; the response omits it
 * @returns a promise that is fulfilled when the response begins or the client disconnects
 * @throws {HttpError} `server busy` if `budget` has no room for the first item
 */
export async function replyListing<Item extends { bytes: number }>(
  ctx: ParameterizedContext,
  name: string,
  items: readonly Item[],
  budget: ByteBudget,
  read: (item: Item) => Awaitable<object | undefined>,
): Promise<void> {
  const { res, app } = ctx;
  ctx.respond = false;
  const begun = Promise.withResolvers<void>();
  const closed = new Promise((resolve) => res.once('close', resolve));
  const write = async (before: string, bytes: Buffer) => {
    if (res.closed) return;
    if (!res.headersSent) res.writeHead(200, fixedHeaders);
    begun.resolve();
    res.write(before);
    await Promise.race([closed, new Promise((flushed) => res.write(bytes, flushed))]);
  };
  // A function of its own, so that the item and its text can be freed while the client reads.
  const encoded = async (item: Item) => {
    const found = await read(item);
    return found && Buffer.from(JSON.stringify(found));
  };
  const sendAll = async () => {
    let separator = `{"${name}":[`;
    let count = 0;
    // A response to HEAD has no body, so no items are read.
    for (const item of ctx.method === 'HEAD' ? [] : items) {
      // The budget is charged before the item is read, so that a refusal costs no read.
      if (!budget.take(item.bytes)) throw serverBusy();
      try {
        const bytes = await encoded(item);
        if (bytes === undefined) continue;
        await write(separator, bytes);
      } finally {
        budget.release(item.bytes);
      }
      // After a lost connection, Node calls back the pending writes before it closes the response.
      if (res.closed || res.socket?.destroyed) return;
      separator = ',';
      count += 1;
    }
    await write(count === 0 ? `${separator}]` : ']', Buffer.from(`,"count":${count}}\n`));
    if (!res.closed) res.end();
  };
  sendAll().then(begun.resolve, (error) => {
    if (!res.headersSent) return begun.reject(error);
    if (!(error instanceof HttpError && error.overload)) app.emit('error', error, ctx);
    res.destroy();
  });
  await begun.promise;
}

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

function asHttpError(thrown: unknown): HttpError {
  if (thrown instanceof HttpError) return thrown;
  // Koa sets `expose` on an error whose message may be sent to the client.
  const { status = 500, expose, message } = (thrown ?? {}) as { status?: number; expose?: boolean; message?: string };
  if (status >= 400 && status < 500 && expose && message) {
    return Object.assign(new HttpError('badRequest'), { status, message: message.toLowerCase() });
  }
  return new HttpError('internalError');
}

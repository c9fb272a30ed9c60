import type { Middleware, ParameterizedContext } from 'koa';
import type { Log } from '../log/log.ts';
import type { ByteBudget } from './byte-budget.ts';
import { HttpError, serverBusy } from './errors.ts';

type Headers = Readonly<Record<string, string>>;

/** Prevents browsers from rendering, sniffing or caching JSON responses. */
export const apiHeaders: Headers = {
  'Content-Security-Policy': "default-src 'none'; frame-ancestors 'none'",
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  'Cache-Control': 'no-store',
};

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
export function replyWithin(
  budget: ByteBudget,
  ctx: ParameterizedContext,
  value: unknown,
  headers: Headers = {},
): boolean {
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
  const all = [...fixedHeaders, 'Content-Length', String(Buffer.byteLength(text))];
  for (const name in headers) all.push(name, headers[name] as string);
  ctx.res.writeHead(status, all).end(text);
}

export interface Items<Key> {
  /** Returns the size of an item in bytes, without reading the item. */
  bytes: (key: Key) => number;
  /** Returns undefined if the item no longer exists. */
  read: (key: Key) => object | undefined | Promise<object | undefined>;
  /** Memory budget to which each item is charged until the item has been sent. */
  budget: ByteBudget;
}

/**
 * Streams the JSON response `{[name]: [...], count}` one item at a time, because all items may not fit in memory. Omits
 * items that no longer exist. A failure after the response has begun closes the connection.
 *
 * @returns a promise that is fulfilled when the response begins or the client disconnects
 * @throws {HttpError} `server busy` if `items.budget` has no room for the first item
 */
export async function replyListing<Key>(
  ctx: ParameterizedContext,
  name: string,
  keys: Iterable<Key>,
  items: Items<Key>,
): Promise<void> {
  const { res, app } = ctx;
  ctx.respond = false;
  // A response to HEAD has no body, so no items are read.
  const parts = listingParts(name, ctx.method === 'HEAD' ? [] : keys, items);
  const first = await parts.next();
  if (!res.closed) res.writeHead(200, fixedHeaders);
  const closed = new Promise<unknown>((resolve) => res.once('close', resolve));
  const sendAll = async () => {
    for (let part = first; !part.done && !res.closed; part = await parts.next()) {
      const { value } = part;
      await Promise.race([closed, new Promise((flushed) => res.write(value, flushed))]);
    }
    if (!res.closed) res.end();
  };
  void sendAll()
    .catch((error) => {
      if (!(error instanceof HttpError && error.overload)) app.emit('error', error, ctx);
      res.destroy();
    })
    .finally(() => parts.return());
}

async function* listingParts<Key>(name: string, keys: Iterable<Key>, { bytes, read, budget }: Items<Key>) {
  let separator = `{"${name}":[`;
  let count = 0;
  for (const key of keys) {
    const charged = bytes(key);
    // The budget is charged before the item is read, so that a refusal costs no read.
    if (!budget.take(charged)) throw serverBusy();
    try {
      const item = await read(key);
      if (item === undefined) continue;
      yield separator + JSON.stringify(item);
    } finally {
      budget.release(charged);
    }
    separator = ',';
    count += 1;
  }
  yield `${count === 0 ? separator : ''}],"count":${count}}\n`;
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

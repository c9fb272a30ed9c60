import type { ServerResponse } from 'node:http';
import type { ParameterizedContext } from 'koa';
import type { ByteBudget } from './byte-budget.ts';
import { HttpError, serverBusy } from './errors.ts';
import { apiHeaders } from './security-headers.ts';

type Headers = Readonly<Record<string, string>>;

/** Encodes a JSON body, ending with a newline so that a shell prompt starts on its own line. */
export function jsonText(value: unknown): string {
  return `${JSON.stringify(value)}\n`;
}

/** Headers of every JSON response, as alternating names and values, the fastest format for `writeHead`. */
const fixedHeaders = [...Object.entries(apiHeaders).flat(), 'Content-Type', 'application/json; charset=utf-8'];

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
  /** Waits until an item of `bytes` bytes may be read and serialized. */
  admit: (bytes: number) => Promise<void>;
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
export function replyListing<Key>(
  ctx: ParameterizedContext,
  name: string,
  keys: Iterable<Key>,
  items: Items<Key>,
): Promise<void> {
  ctx.respond = false;
  const { promise, resolve, reject } = Promise.withResolvers<void>();
  const begin = () => {
    if (!ctx.headerSent) ctx.res.writeHead(200, fixedHeaders);
    resolve();
  };
  // A response to HEAD has no body, so no items are read.
  writeListing(ctx, name, ctx.method === 'HEAD' ? [] : keys, items, begin).then(resolve, reject);
  return promise;
}

async function writeListing<Key>(
  ctx: ParameterizedContext,
  name: string,
  keys: Iterable<Key>,
  items: Items<Key>,
  begin: () => void,
): Promise<void> {
  const { res } = ctx;
  try {
    let count = 0;
    for (const key of keys) {
      if (await writeItem(res, key, items, count === 0 ? `{"${name}":[` : ',', begin)) count += 1;
      if (res.closed) return;
    }
    begin();
    res.end(count === 0 ? `{"${name}":[],"count":0}\n` : `],"count":${count}}\n`);
  } catch (error) {
    if (!res.headersSent) throw error;
    if (!(error instanceof HttpError && error.overload)) ctx.app.emit('error', error, ctx);
    res.destroy();
  }
}

async function writeItem<Key>(
  res: ServerResponse,
  key: Key,
  items: Items<Key>,
  before: string,
  begin: () => void,
): Promise<boolean> {
  const { admit, read, budget } = items;
  const bytes = items.bytes(key);
  // The budget is charged before the item is read, so that a refusal costs no read.
  if (!budget.take(bytes)) throw serverBusy();
  const flushed = Promise.withResolvers<void>();
  const onFlushed = () => flushed.resolve();
  res.once('close', onFlushed);
  try {
    await admit(bytes);
    const item = res.closed ? undefined : await read(key);
    if (item === undefined) return false;
    const part = Buffer.from(before + JSON.stringify(item));
    begin();
    res.write(part, onFlushed);
    await flushed.promise;
    return true;
  } finally {
    res.off('close', onFlushed);
    budget.release(bytes);
  }
}

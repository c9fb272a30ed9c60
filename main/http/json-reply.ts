import type { ServerResponse } from 'node:http';
import type { ParameterizedContext } from 'koa';
import type { ByteBudget } from './byte-budget.ts';
import { HttpError, serverBusy } from './errors.ts';
import { apiHeaders } from './security-headers.ts';

const CONTENT_TYPE = 'application/json; charset=utf-8';
/** Names and values in turn, as Node takes them fastest. */
const fixedHeaders = [...Object.entries(apiHeaders).flat(), 'Content-Type', CONTENT_TYPE];

/**
 * Answers a request with a JSON value. Past Koa's own reply, which finds type and length out from the body, header by
 * header: that costs as much as all the rest of a small answer.
 *
 * @param headers beside those that every answer with data has
 */
export function replyJson(
  ctx: ParameterizedContext,
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): void {
  replyText(ctx, status, JSON.stringify(value), headers);
}

/**
 * Answers 200 with a JSON value that may be large, within the budget of bytes that clients have not read yet.
 *
 * @returns false, without an answer, if the budget has no room
 */
export function replyWithin(
  budget: ByteBudget,
  ctx: ParameterizedContext,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): boolean {
  if (ctx.res.closed) {
    ctx.respond = false;
    return true;
  }
  const text = JSON.stringify(value);
  const bytes = Buffer.byteLength(text);
  if (!budget.take(bytes)) return false;
  ctx.res.once('close', () => budget.release(bytes));
  replyText(ctx, 200, text, headers);
  return true;
}

function replyText(
  ctx: ParameterizedContext,
  status: number,
  text: string,
  headers: Readonly<Record<string, string>>,
): void {
  ctx.respond = false;
  if (ctx.headerSent) return;
  const all = [...fixedHeaders, 'Content-Length', String(Buffer.byteLength(text))];
  for (const name in headers) all.push(name, headers[name] as string);
  ctx.res.writeHead(status, all).end(text);
}

/** The items of a listing. */
export interface Items<Key> {
  /** Size of an item, known before it is read. */
  bytes: (key: Key) => number;
  /** Waits for an item's turn on the event loop. */
  admit: (bytes: number) => Promise<void>;
  /** The item, or undefined if it is gone. */
  read: (key: Key) => object | undefined | Promise<object | undefined>;
  /** Bytes that clients have not read yet. */
  budget: ByteBudget;
}

/**
 * Answers with the listing `{[name]: [...], count}`, an item at a time, as fast as the client reads it: a hundred of the
 * largest items are hundreds of megabytes, which would hold everybody up and fill the memory. Items that are gone are left
 * out. If the budget has no room for an item, or it cannot be read, the connection is closed.
 *
 * @returns once the response has begun or the client is gone, so that a slow reader does not count as a slow response
 * @throws {HttpError} `server busy` if the budget has no room for the first item
 */
export function replyListing<Key>(
  ctx: ParameterizedContext,
  name: string,
  keys: Iterable<Key>,
  items: Items<Key>,
): Promise<void> {
  ctx.respond = false;
  const begun = Promise.withResolvers<void>();
  writeListing(ctx, name, keys, items, begun.resolve).then(begun.resolve, begun.reject);
  return begun.promise;
}

async function writeListing<Key>(
  ctx: ParameterizedContext,
  name: string,
  keys: Iterable<Key>,
  items: Items<Key>,
  onBegin: () => void,
): Promise<void> {
  const { res } = ctx;
  const begin = () => {
    if (res.headersSent) return;
    res.writeHead(200, fixedHeaders);
    onBegin();
  };
  if (ctx.method === 'HEAD') {
    begin();
    res.end();
    return;
  }
  try {
    let count = 0;
    for (const key of keys) {
      if (await writeItem(res, key, items, count === 0 ? `{"${name}":[` : ',', begin)) count += 1;
      if (res.closed) return;
    }
    begin();
    res.end(count === 0 ? `{"${name}":[],"count":0}` : `],"count":${count}}`);
  } catch (error) {
    if (!res.headersSent) throw error;
    if (!(error instanceof HttpError && error.overload)) ctx.app.emit('error', error, ctx);
    res.destroy();
  }
}

/**
 * Writes an item, and waits until it has left the process or the client is gone.
 *
 * @returns false if the item is gone
 */
async function writeItem<Key>(
  res: ServerResponse,
  key: Key,
  items: Items<Key>,
  before: string,
  begin: () => void,
): Promise<boolean> {
  const { admit, read, budget } = items;
  const bytes = items.bytes(key);
  // Before it is read, so that a refusal costs nothing.
  if (!budget.take(bytes)) throw serverBusy();
  const left = Promise.withResolvers<void>();
  const leave = () => left.resolve();
  res.once('close', leave);
  try {
    await admit(bytes);
    const item = res.closed ? undefined : await read(key);
    if (item === undefined) return false;
    const part = Buffer.from(before + JSON.stringify(item));
    begin();
    res.write(part, leave);
    await left.promise;
    return true;
  } finally {
    res.off('close', leave);
    budget.release(bytes);
  }
}

import { Readable } from 'node:stream';
import type { ParameterizedContext } from 'koa';
import { dataHeaders } from './security-headers.ts';

const CONTENT_TYPE = 'application/json; charset=utf-8';
/** Names and values in turn, as Node takes them fastest. */
const fixedHeaders = [...Object.entries(dataHeaders).flat(), 'Content-Type', CONTENT_TYPE];

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
  ctx.respond = false;
  if (ctx.headerSent) return;
  const text = JSON.stringify(value);
  const all = [...fixedHeaders, 'Content-Length', String(Buffer.byteLength(text))];
  for (const name in headers) all.push(name, headers[name] as string);
  ctx.res.writeHead(status, all).end(text);
}

/** The items of a listing. */
export interface Items<Key> {
  /** Waits for the item's turn on the event loop. */
  admit: (key: Key) => Promise<void>;
  /** The item, or undefined if it is gone. */
  read: (key: Key) => object | undefined | Promise<object | undefined>;
}

/**
 * Answers with the listing `{[name]: [...], count}`, an item at a time, as fast as the client reads it: a hundred of the
 * largest items are hundreds of megabytes, which would hold everybody up and fill the memory. Items that are gone are left
 * out.
 */
export function replyListing<Key>(
  ctx: ParameterizedContext,
  name: string,
  keys: Iterable<Key>,
  items: Items<Key>,
): void {
  ctx.set(dataHeaders);
  ctx.body = Readable.from(listingText(name, keys, items));
  ctx.type = CONTENT_TYPE;
}

async function* listingText<Key>(name: string, keys: Iterable<Key>, { admit, read }: Items<Key>) {
  let count = 0;
  for (const key of keys) {
    await admit(key);
    const item = await read(key);
    if (item === undefined) continue;
    yield `${count++ === 0 ? `{"${name}":[` : ','}${JSON.stringify(item)}`;
  }
  yield count === 0 ? `{"${name}":[],"count":0}` : `],"count":${count}}`;
}

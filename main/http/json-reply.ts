import { Readable } from 'node:stream';
import { setImmediate } from 'node:timers/promises';
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

/**
 * Answers with the listing `{[name]: [...], count}`, an item at a time, as fast as the client reads it: a hundred of the
 * largest items are hundreds of megabytes, which would hold everybody up and fill the memory.
 *
 * @param read gives the item of each key; one that is gone by now is left out
 */
export function replyListing<Key>(
  ctx: ParameterizedContext,
  name: string,
  keys: Iterable<Key>,
  read: (key: Key) => object | undefined | Promise<object | undefined>,
): void {
  ctx.set(dataHeaders);
  ctx.body = Readable.from(listingText(name, keys, read));
  ctx.type = CONTENT_TYPE;
}

async function* listingText<Key>(
  name: string,
  keys: Iterable<Key>,
  read: (key: Key) => object | undefined | Promise<object | undefined>,
) {
  let count = 0;
  for (const key of keys) {
    const item = await read(key);
    if (item === undefined) continue;
    yield `${count++ === 0 ? `{"${name}":[` : ','}${JSON.stringify(item)}`;
    // Others have their turn between two items, even if this client takes them as fast as they come.
    await setImmediate();
  }
  yield count === 0 ? `{"${name}":[],"count":0}` : `],"count":${count}}`;
}

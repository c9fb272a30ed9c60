import { readdirSync } from 'node:fs';
import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import Koa, { type Middleware } from 'koa';
import serve from 'koa-static';
import { HttpError } from './errors.ts';

const www = fileURLToPath(new URL('../../www', import.meta.url));

/** Content security policy, which allows a page to load from and connect to its own service only. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  // Forms are sent by scripts. If the scripts fail to load, the browser must not submit an API key itself.
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** Headers of every file of a browser client. */
export const pageHeaders = {
  'Content-Security-Policy': CONTENT_SECURITY_POLICY,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // File names have no version, so browsers must revalidate their cached copies.
  'Cache-Control': 'no-cache',
};

/** Response of koa-static for one file in one encoding. */
interface StaticResponse {
  headers: OutgoingHttpHeaders;
  body: Buffer;
}

/** Prepared responses for one file: `gzip` for clients that accept this encoding, `identity` for the others. */
interface StaticFile {
  identity: StaticResponse;
  gzip: StaticResponse;
}

/**
 * Returns middleware that serves a browser client to GET and HEAD: the files of its folder below `www` by their path, those
 * of `www/shared` under `/shared/`, and `index.html` at the root. Other methods get 405. Other paths go to the next
 * middleware, except on service A (`ticker`), which serves `index.html` for them.
 *
 * koa-static reads every file once, before the promise is fulfilled. Responses come from memory, so a client that reads
 * slowly keeps no file open.
 *
 * @throws {Error} if a file cannot be read
 */
export async function staticClient(client: 'ticker' | 'tasks'): Promise<Middleware> {
  const own = serve(`${www}/${client}`);
  const shared = serve(www);
  const served = new Map<string, StaticFile>();
  for (const path of ['/', ...files(client).map((file) => `/${file}`)]) served.set(path, await readFile(own, path));
  for (const file of files('shared')) served.set(`/shared/${file}`, await readFile(shared, `/shared/${file}`));
  const fallback = client === 'ticker' ? served.get('/') : undefined;

  return (ctx, next) => {
    const file = served.get(ctx.path) ?? fallback;
    if (file === undefined) return next();
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') {
      throw new HttpError('methodNotAllowed', { headers: { Allow: 'GET, HEAD' } });
    }
    const { headers, body } = file[ctx.acceptsEncodings('gzip', 'identity') === 'gzip' ? 'gzip' : 'identity'];
    ctx.set(headers as Record<string, string>);
    // Appends to `Vary`, because the CORS middleware may have set another value.
    ctx.vary('Accept-Encoding');
    ctx.body = body;
    // Responds 304 if the client's cached copy is current. koa-static leaves this check to the app.
    if (ctx.fresh) ctx.status = 304;
    return undefined;
  };
}

/** Reads the responses of koa-static for a path in both encodings. */
async function readFile(koaStatic: Middleware, path: string): Promise<StaticFile> {
  return {
    identity: await readResponse(koaStatic, path, 'identity'),
    gzip: await readResponse(koaStatic, path, 'gzip'),
  };
}

/** App that creates contexts for koa-static. Its `error` events are ignored, because a failed read rejects `readResponse`. */
const reader = new Koa().on('error', () => {});

async function readResponse(koaStatic: Middleware, path: string, encoding: string): Promise<StaticResponse> {
  const request = Object.assign(new IncomingMessage(new Socket()), { method: 'GET', url: encodeURI(path) });
  request.headers['accept-encoding'] = encoding;
  const ctx = reader.createContext(request, new ServerResponse(request));
  ctx.set(pageHeaders);
  await koaStatic(ctx, async () => {
    throw new Error(`${path} cannot be read from ${www}`);
  });
  const { 'content-length': _, ...headers } = ctx.response.headers;
  return { headers, body: await buffer(ctx.body as Readable) };
}

/** Returns the paths of the files in a folder below `www`, without their compressed copies. */
function files(folder: string): string[] {
  return readdirSync(`${www}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.gz'))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(`${www}/${folder}/`.length));
}

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

/** What a page may do: use its own service, and nothing else. */
const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "img-src 'self'",
  "connect-src 'self'",
  // Forms are sent by script; should it be missing, an API key must not travel any other way.
  "form-action 'none'",
  "base-uri 'none'",
  "frame-ancestors 'none'",
  "require-trusted-types-for 'script'",
  "trusted-types 'none'",
].join('; ');

/** For every file of a client. */
export const pageHeaders = {
  'Content-Security-Policy': CONTENT_SECURITY_POLICY,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // Names carry no version: a browser keeps its copy, and asks whether it still holds.
  'Cache-Control': 'no-cache',
};

/** Answer of koa-static to a request for one file. */
interface StaticAnswer {
  headers: OutgoingHttpHeaders;
  body: Buffer;
}

/** Answers to a client without and with `Accept-Encoding: gzip`. */
interface StaticFile {
  identity: StaticAnswer;
  gzip: StaticAnswer;
}

/**
 * Serves a browser client to GET and HEAD: the files of its folder below `www` by their path, those of `www/shared`
 * under `/shared/`, and `index.html` at the root. Any other method is refused there. Other paths are left to the next
 * middleware, but for service A, whose client is served at all of them.
 *
 * koa-static reads every file once, here. Requests are answered from memory: a client that reads slowly holds its
 * connection, but no open file.
 *
 * @throws {Error} of the system when a file cannot be read
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
    // Added, because CORS may have set another value.
    ctx.vary('Accept-Encoding');
    ctx.body = body;
    // The client's copy is as new as the file, which koa-static leaves to others.
    if (ctx.fresh) ctx.status = 304;
    return undefined;
  };
}

/** Both answers of koa-static for a path. */
async function readFile(koaStatic: Middleware, path: string): Promise<StaticFile> {
  return { identity: await answer(koaStatic, path, 'identity'), gzip: await answer(koaStatic, path, 'gzip') };
}

/** App of the contexts that koa-static answers in; an error of a file rejects the reading of its body, too. */
const reader = new Koa().on('error', () => {});

async function answer(koaStatic: Middleware, path: string, encoding: string): Promise<StaticAnswer> {
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

/** Paths of the files in a folder below `www`, without the compressed copies beside them. */
function files(folder: string): string[] {
  return readdirSync(`${www}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !entry.name.endsWith('.gz'))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(`${www}/${folder}/`.length));
}

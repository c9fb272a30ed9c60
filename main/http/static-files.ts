import { readdirSync } from 'node:fs';
import { IncomingMessage, type OutgoingHttpHeaders, ServerResponse } from 'node:http';
import { Socket } from 'node:net';
import type { Readable } from 'node:stream';
import { buffer } from 'node:stream/consumers';
import { fileURLToPath } from 'node:url';
import Koa, { type Middleware } from 'koa';
import serve from 'koa-static';
import { answerOtherMethods } from './exact-router.ts';

const www = fileURLToPath(new URL('../../www', import.meta.url));

/** Headers sent with every file of the browser clients. */
export const pageHeaders = {
  // Pages may load from, and connect to, only their own origin.
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    // Scripts submit the forms. If the scripts fail to load, the browser must not submit the API key by itself.
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // File names do not contain a version, so browsers must revalidate cached files.
  'Cache-Control': 'no-cache',
};

/** koa-static's response for one file in one encoding. */
interface StaticResponse {
  headers: OutgoingHttpHeaders;
  body: Buffer;
}

/** Encodings in order of preference. Browsers accept Brotli (`br`) only over HTTPS or from this machine. */
const ENCODINGS = ['br', 'gzip', 'identity'] as const;
type Encoding = (typeof ENCODINGS)[number];

/** Prepared responses for one file, by encoding. */
type StaticFile = Readonly<Record<Encoding, StaticResponse>>;

/**
 * Returns middleware that serves the files in `www/<client>` at `/` and the files in `www/shared` at `/shared/`.
 * Supports GET, HEAD and OPTIONS. For unknown paths, service A (`ticker`) serves `index.html`, and service B
 * calls the next middleware.
 *
 * All files are read into memory before the promise is fulfilled, so slow clients do not keep files open.
 *
 * @throws {Error} if a file cannot be read
 */
export async function staticClient(client: 'ticker' | 'tasks'): Promise<Middleware> {
  const served = new Map<string, StaticFile>();
  for (const file of ['', ...files(client)]) served.set(`/${file}`, await readFile(`/${client}/${file}`));
  for (const file of files('shared')) served.set(`/shared/${file}`, await readFile(`/shared/${file}`));
  const fallback = client === 'ticker' ? served.get('/') : undefined;
  const otherMethods = answerOtherMethods('GET', 'HEAD');

  return (ctx, next) => {
    const file = served.get(ctx.path) ?? fallback;
    if (file === undefined) return next();
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return otherMethods(ctx, next);
    const accepted = ENCODINGS.find((encoding) => ctx.acceptsEncodings(encoding, 'identity') === encoding);
    const { headers, body } = file[accepted ?? 'identity'];
    ctx.set(headers as Record<string, string>);
    // Appends to `Vary`, because the CORS middleware may already have set it.
    ctx.vary('Accept-Encoding');
    ctx.body = body;
    // Responds 304 if the client's cached copy is up to date.
    if (ctx.fresh) ctx.status = 304;
    return undefined;
  };
}

/** Reads a file below `www` with koa-static, in all encodings. */
async function readFile(path: string): Promise<StaticFile> {
  const [br, gzip, identity] = await Promise.all(ENCODINGS.map((encoding) => readResponse(path, encoding)));
  return { br, gzip, identity } as StaticFile;
}

const koaStatic = serve(www);
/**
 * Koa app that creates contexts for koa-static. Ignores `error` events, because `readResponse` reports failed reads.
 */
const reader = new Koa().on('error', () => {});

async function readResponse(path: string, encoding: Encoding): Promise<StaticResponse> {
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

/** Returns the relative paths of the files in a folder of `www`, except compressed copies (`.br`, `.gz`). */
function files(folder: string): string[] {
  return readdirSync(`${www}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.(br|gz)$/.test(entry.name))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(`${www}/${folder}/`.length));
}

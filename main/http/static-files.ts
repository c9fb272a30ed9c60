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

export const pageHeaders = {
  'Content-Security-Policy': [
    "default-src 'none'",
    "script-src 'self'",
    "style-src 'self'",
    "img-src 'self'",
    "connect-src 'self'",
    // Only scripts submit the forms. Without scripts, the browser would send the API key in a plain form request.
    "form-action 'none'",
    "base-uri 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; '),
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
  // File names contain no version, so browsers must revalidate cached files.
  'Cache-Control': 'no-cache',
};

/** The client of both services, which pages of any origin may import. */
const CLIENT_MODULE = '/client.js';

interface StaticResponse {
  headers: OutgoingHttpHeaders;
  body: Buffer;
}

/** Encodings in order of preference. Browsers accept Brotli (`br`) only over HTTPS or from loopback addresses. */
const ENCODINGS = ['br', 'gzip', 'identity'] as const;
type Encoding = (typeof ENCODINGS)[number];

type StaticFile = Readonly<Record<Encoding, StaticResponse>>;

/** Files that both services serve. Each is read once, by the service that starts first. */
const filesOfBoth = new Map<string, StaticFile>();

/**
 * Returns middleware that serves the files of `www/<client>`, `www/shared` and `www/client` from memory. For unknown
 * paths, the ticker serves `index.html`, and the task service calls the next middleware.
 */
export async function staticClient(client: 'ticker' | 'tasks'): Promise<Middleware> {
  const served = new Map<string, StaticFile>();
  for (const file of ['', ...files(client)]) served.set(`/${file}`, await readFile(`/${client}/${file}`));
  for (const folder of ['shared', 'client']) {
    for (const file of files(folder)) {
      const path = `/${folder}/${file}`;
      const read = filesOfBoth.get(path) ?? (await readFile(path));
      filesOfBoth.set(path, read);
      served.set(path, read);
    }
  }
  const fallback = client === 'ticker' ? served.get('/') : undefined;
  const otherMethods = answerOtherMethods('GET', 'HEAD');

  return (ctx, next) => {
    const file = served.get(ctx.path) ?? fallback;
    if (file === undefined) return next();
    if (ctx.method !== 'GET' && ctx.method !== 'HEAD') return otherMethods(ctx, next);
    const accepted = ENCODINGS.find((encoding) => ctx.acceptsEncodings(encoding, 'identity') === encoding);
    const { headers, body } = file[accepted ?? 'identity'];
    ctx.set(headers as Record<string, string>);
    if (ctx.path === CLIENT_MODULE) ctx.set('Access-Control-Allow-Origin', '*');
    // Appended, because the CORS middleware may already have set `Vary`.
    ctx.vary('Accept-Encoding');
    ctx.body = body;
    if (ctx.fresh) ctx.status = 304;
    return undefined;
  };
}

async function readFile(path: string): Promise<StaticFile> {
  const [br, gzip, identity] = await Promise.all(ENCODINGS.map((encoding) => readResponse(path, encoding)));
  return { br, gzip, identity } as StaticFile;
}

const koaStatic = serve(www);
// Errors are ignored, because `readResponse` reports failed reads.
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

function files(folder: string): string[] {
  return readdirSync(`${www}/${folder}`, { recursive: true, withFileTypes: true })
    .filter((entry) => entry.isFile() && !/\.(br|gz|d\.ts)$/.test(entry.name))
    .map((entry) => `${entry.parentPath}/${entry.name}`.slice(`${www}/${folder}/`.length));
}

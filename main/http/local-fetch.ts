import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http';
import { PassThrough, Readable } from 'node:stream';
import type { Answer, Fetch } from '../../www/client/http-client.ts';

/** Response of an app to a request of this process. Has only the members of `ServerResponse` and of a socket that the app uses. */
class LocalResponse extends PassThrough {
  statusCode = 404;
  headersSent = false;
  readonly remoteAddress = 'local';
  #isAnswered = false;
  readonly #headers = new Map<string, string>();
  readonly #resolve: (answer: Answer) => void;

  constructor(resolve: (answer: Answer) => void) {
    super();
    this.#resolve = resolve;
  }

  setHeader(name: string, value: string): void {
    this.#headers.set(name.toLowerCase(), value);
  }

  removeHeader(name: string): void {
    this.#headers.delete(name.toLowerCase());
  }

  writeHead(status: number, headers: readonly string[] | Readonly<Record<string, string>>): this {
    const flat: readonly string[] = Array.isArray(headers) ? headers : Object.entries(headers).flat();
    for (let index = 0; index < flat.length; index += 2) this.setHeader(flat[index] ?? '', flat[index + 1] ?? '');
    this.statusCode = status;
    this.headersSent = true;
    return this;
  }

  override write(chunk: string | Buffer, ...others: unknown[]): boolean {
    if (!this.#isAnswered) {
      this.#isAnswered = true;
      this.headersSent = true;
      const init = { status: this.statusCode, headers: [...this.#headers] };
      this.#resolve(new Response(Readable.toWeb(this) as Answer['body'], init));
    }
    return super.write(chunk, ...(others as []));
  }

  override end(chunk?: unknown): this {
    if (this.#isAnswered) return super.end(chunk);
    this.#isAnswered = true;
    this.headersSent = true;
    // Not through the stream, which would take most of the time of a small response.
    const { statusCode: status } = this;
    const headers = { get: (name: string) => this.#headers.get(name.toLowerCase()) ?? null };
    const body = String(chunk ?? '');
    const json = async () => JSON.parse(body);
    this.#resolve({ ok: status < 300, status, headers, body: null, text: async () => body, json });
    return this.destroy();
  }
}

/** Returns a `fetch` for the client that passes requests to an app of this process, without a connection. */
export function localFetch(handle: RequestListener): Fetch {
  return ({ pathname, search }, { method = 'GET', headers = {}, body, signal }) =>
    new Promise((resolve, reject) => {
      signal.throwIfAborted();
      const response = new LocalResponse(resolve);
      signal.addEventListener('abort', () => {
        response.destroy();
        reject(signal.reason);
      });
      const bytes = Buffer.from(body ?? '');
      const request = new Readable({
        read() {
          if (bytes.length > 0) this.push(bytes);
          this.push(null);
        },
      });
      const sent = Object.entries(headers).map(([name, value]) => [name.toLowerCase(), value]);
      const all = { ...Object.fromEntries(sent), 'content-length': String(bytes.length) };
      Object.assign(request, { method, url: pathname + search, headers: all, socket: response });
      handle(request as IncomingMessage, response as unknown as ServerResponse);
    });
}

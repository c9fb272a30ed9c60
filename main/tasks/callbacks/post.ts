import { once } from 'node:events';
import { type IncomingMessage, type OutgoingHttpHeaders, request as requestHttp } from 'node:http';
import { request as requestHttps } from 'node:https';
import type { LookupFunction, Socket } from 'node:net';
import type { Clock } from '../../../workers/shared/clock.ts';

interface PostOptions {
  headers: OutgoingHttpHeaders;
  body: string;
  signal: AbortSignal;
  /** Resolves the host. The system's resolver if undefined. */
  lookup: LookupFunction | undefined;
  clock: Clock;
}

export type Answer = Awaited<ReturnType<typeof post>>;

/** Time limit from the lookup of the host to the end of the answer. */
const TIME_LIMIT_MS = 10_000;
const MAX_ANSWER_BYTES = 64 * 1024;

/** Sends a `POST` on a new connection, without following redirects. @throws {Error} if there is no answer in time */
export async function post(url: URL, { headers, body, signal, lookup, clock }: PostOptions) {
  const late = new AbortController();
  const cancelTimer = clock.timer(TIME_LIMIT_MS, () => late.abort());
  const ended = AbortSignal.any([signal, late.signal]);
  const request = url.protocol === 'https:' ? requestHttps : requestHttp;
  try {
    const sent = request(url, {
      method: 'POST',
      headers: { 'content-length': Buffer.byteLength(body), ...headers },
      agent: false,
      signal: ended,
      ...(lookup && { lookup }),
    });
    // A receiver may close the connection after its answer, before it has read the body.
    sent.on('error', () => {});
    sent.end(body);
    // Without a listener for `upgrade`, Node would close the connection and emit nothing.
    const answers = ['response', 'upgrade'].map((event) => once(sent, event, { signal: ended }));
    const [response, socket] = (await Promise.race(answers)) as [IncomingMessage, Socket | undefined];
    if (socket !== undefined) {
      socket.destroy();
      throw new Error(`the receiver answered ${response.statusCode}`);
    }
    return { status: response.statusCode ?? 0, headers: response.headers, text: await readStart(response) };
  } catch (error) {
    if (late.signal.aborted) throw new Error(`no answer within ${TIME_LIMIT_MS / 1000} s`);
    // If no address of the host accepts a connection, only the errors of the addresses have a message.
    const [cause = error] = error instanceof AggregateError ? error.errors : [];
    throw cause;
  } finally {
    cancelTimer();
  }
}

/** Reads a body up to {@link MAX_ANSWER_BYTES}, then closes the connection. */
async function readStart(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = [];
  let bytes = 0;
  for await (const chunk of response) {
    chunks.push(chunk);
    bytes += chunk.length;
    if (bytes >= MAX_ANSWER_BYTES) break;
  }
  return Buffer.concat(chunks).toString();
}

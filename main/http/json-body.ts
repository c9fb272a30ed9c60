import type { IncomingMessage } from 'node:http';
import { parseJsonObject } from '../../workers/json-object.ts';
import { type BodyBounds, BodyBuffer } from './body-buffer.ts';
import { HttpError } from './errors.ts';

/** Bytes of a refused body that are read and discarded on a connection that closes after the answer. */
const MAX_DISCARDED = 16 * 1024 * 1024;

/**
 * Chunks that a chunked body may have whatever its size, and bytes for each further one: a chunk costs the event loop a
 * microsecond. A body with `Content-Length` arrives in network reads instead, which the client's connection bounds.
 */
const FREE_CHUNKS = 512;
const BYTES_PER_CHUNK = 16;

/**
 * The body of a request as a JSON object, whatever its content type says. Other JSON becomes an object without fields.
 *
 * @param admit waits for the request's turn to have that many bytes parsed
 * @throws {HttpError} `invalid JSON`, and as {@link withBody} does
 */
export function readJsonObject(
  request: IncomingMessage,
  bounds: BodyBounds,
  admit: (bytes: number) => Promise<void>,
): Promise<Record<string, unknown>> {
  return withBody(request, bounds, async (body) => {
    await admit(body.length);
    const object = parseJsonObject(body.bytes);
    if (object === undefined) throw new HttpError('invalidJson');
    return object;
  });
}

/**
 * Reads the body of a request, and frees its memory once `use` is done with it.
 *
 * @throws {HttpError} `request body too large`, `server busy`, or `bad request` if the client goes away
 */
export async function withBody<T>(
  request: IncomingMessage,
  bounds: BodyBounds,
  use: (body: BodyBuffer) => Promise<T>,
): Promise<T> {
  const body = new BodyBuffer(bounds, request.headers['content-length']);
  try {
    await receive(request, body);
    return await use(body);
  } finally {
    body.release();
  }
}

/**
 * Reads a body to its end. A refused one frees its memory at once. Too many chunks end the connection without an answer,
 * because only that stops Node from reporting those that it has read already.
 */
function receive(request: IncomingMessage, body: BodyBuffer): Promise<void> {
  return new Promise((resolve, reject) => {
    // Node reads on what comes after an early answer, but not on a connection that ends with it: a client that sends
    // all before it reads would never see the answer.
    const maxDiscarded = /\bclose\b/i.test(request.headers.connection ?? '') ? MAX_DISCARDED : 0;
    let refusal: unknown;
    let discarded = 0;
    const isChunked = request.headers['content-length'] === undefined;
    let chunks = 0;
    let received = 0;
    request.on('data', (chunk: Buffer<ArrayBuffer>) => {
      received += chunk.length;
      if (isChunked && ++chunks > FREE_CHUNKS + received / BYTES_PER_CHUNK) {
        request.destroy();
        return;
      }
      if (refusal === undefined) {
        try {
          body.append(chunk);
          return;
        } catch (error) {
          refusal = error;
          body.release();
        }
      } else discarded += chunk.length;
      if (discarded >= maxDiscarded) reject(refusal);
    });
    request.once('end', () => {
      if (refusal === undefined) resolve();
      else reject(refusal);
    });
    // Every request closes, so an error for each would cost its stack trace.
    const cutOff = () => {
      if (!request.readableEnded) reject(new HttpError('badRequest'));
    };
    request.once('error', cutOff);
    request.once('close', cutOff);
  });
}

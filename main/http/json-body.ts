import type { IncomingMessage } from 'node:http';
import { parseJsonObject } from '../../workers/json-object.ts';
import { type BodyBounds, BodyBuffer } from './body-buffer.ts';
import { HttpError } from './errors.ts';

/** Most bytes of a refused body that are discarded on a connection that closes after the response. */
const MAX_DISCARDED = 16 * 1024 * 1024;

/**
 * Number of chunks that a chunked body may have regardless of its size. Each chunk costs the event loop a microsecond. A body with
 * `Content-Length` has no chunks: it arrives in network reads, whose rate the client's connection limits.
 */
const FREE_CHUNKS = 512;
/** Bytes of the body that permit one more chunk. */
const BYTES_PER_CHUNK = 16;

/**
 * Parses the body of a request as a JSON object, regardless of its content type. Other JSON becomes an object without fields.
 *
 * @param admit waits until that many bytes may be parsed
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
 * Reads the body of a request, and frees its memory once the promise of `use` settles.
 *
 * @throws {HttpError} `request body too large`, `server busy`, or `bad request` if the client disconnects
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
 * Receives a body. If the body is refused, its memory is freed at once. Too many chunks close the connection without a
 * response, because only that stops Node from emitting the chunks that it has already read.
 */
function receive(request: IncomingMessage, body: BodyBuffer): Promise<void> {
  return new Promise((resolve, reject) => {
    // After an early response, Node discards the rest of the body, unless the connection closes with that response. A client
    // that sends everything before it reads would then never see the response, so the body is discarded first.
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
    // Every request emits `close`, so the error with its costly stack trace is created only for incomplete bodies.
    const cutOff = () => {
      if (!request.readableEnded) reject(new HttpError('badRequest'));
    };
    request.once('error', cutOff);
    request.once('close', cutOff);
  });
}

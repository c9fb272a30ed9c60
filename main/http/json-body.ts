import type { IncomingMessage } from 'node:http';
import { parseJsonObject } from '../../workers/json-object.ts';
import { type BodyBounds, BodyBuffer } from './body-buffer.ts';
import { HttpError } from './errors.ts';

/** Maximum number of bytes of a refused body to discard before sending a response that closes the connection. */
const MAX_DISCARDED = 16 * 1024 * 1024;

/**
 * Number of chunks that a body in chunked encoding may have, however small it is. Limited because each chunk takes a microsecond
 * of event loop time. A body with `Content-Length` has no such limit, because it arrives in network reads, limited by the
 * client's connection.
 */
const FREE_CHUNKS = 512;
/** Number of bytes received for each chunk allowed in addition to {@link FREE_CHUNKS}. */
const BYTES_PER_CHUNK = 16;

/**
 * Parses a request's body as a JSON object, whatever its content type. A JSON value of another type becomes an empty object.
 *
 * @param admit called with the number of bytes to parse; its promise is fulfilled when they may be parsed
 * @throws {HttpError} `invalid JSON`, or any error of {@link withBody}
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
 * Reads a request's body, passes it to `use`, and frees its memory when the promise returned by `use` is settled.
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
 * Receives a body into a buffer. If the buffer refuses a chunk, its memory is freed at once. If there are too many chunks, the
 * connection is closed without a response, because nothing else stops Node from emitting the chunks that it has already read.
 */
function receive(request: IncomingMessage, body: BodyBuffer): Promise<void> {
  return new Promise((resolve, reject) => {
    // If the connection stays open after an error response, Node discards the rest of the body. If it will be closed, the rest is
    // discarded here first. Otherwise a client that sends everything before it reads would never see the response.
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
    // Every request emits `close`. The error is created only if the body is incomplete, because capturing its stack trace is costly.
    const cutOff = () => {
      if (!request.readableEnded) reject(new HttpError('badRequest'));
    };
    request.once('error', cutOff);
    request.once('close', cutOff);
  });
}

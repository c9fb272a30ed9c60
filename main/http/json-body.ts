import type { IncomingMessage } from 'node:http';
import { parseJsonObject } from '../../workers/json-object.ts';
import { type BodyBounds, BodyBuffer } from './body-buffer.ts';
import { HttpError } from './errors.ts';

/** Maximum number of bytes to discard after a request body has been refused. */
const MAX_DISCARDED_BYTES = 16 * 1024 * 1024;

/** Number of chunks that a body of any size may have. Limited, because a chunk takes a microsecond of event loop time. */
const FREE_CHUNKS = 512;
/** Number of received bytes that allow one chunk beyond {@link FREE_CHUNKS}. */
const BYTES_PER_CHUNK = 16;

/**
 * Reads a request body as a JSON object. Other JSON values become an empty object.
 *
 * @param admit called with the size of the body; the body is parsed when the returned promise is fulfilled
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
 * Reads a request body, passes it to `use`, and frees its memory when the promise returned by `use` is settled.
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

function receive(request: IncomingMessage, body: BodyBuffer): Promise<void> {
  return new Promise((resolve, reject) => {
    // With `Connection: close`, the error response follows the refused body, because closing the connection while the
    // client still sends would lose the response.
    const maxDiscarded = /\bclose\b/i.test(request.headers.connection ?? '') ? MAX_DISCARDED_BYTES : 0;
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
    // Creates the error only for an incomplete body, because capturing a stack trace for every request is too slow.
    const cutOff = () => {
      if (!request.readableEnded) reject(new HttpError('badRequest'));
    };
    request.once('error', cutOff);
    request.once('close', cutOff);
  });
}

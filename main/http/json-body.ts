import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { type BodyBounds, BodyBuffer } from './body-buffer.ts';
import { HttpError } from './errors.ts';

/** Bytes of a refused body that are read and discarded on a connection that closes after the answer. */
const MAX_DISCARDED = 16 * 1024 * 1024;

/**
 * The body of a request as a JSON object, whatever its content type says.
 *
 * @returns the object; other JSON becomes an object without fields, so that the missing field is what is reported
 * @throws {HttpError} `invalid JSON`, `request body too large`, `server busy`, or `bad request` if the client goes away
 */
export async function readJsonObject(request: IncomingMessage, bounds: BodyBounds): Promise<Record<string, unknown>> {
  const body = new BodyBuffer(bounds, request.headers['content-length']);
  try {
    await receive(request, body);
    const value = parse(body.bytes);
    return isObject(value) ? value : {};
  } finally {
    body.release();
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function parse(body: Buffer): unknown {
  if (!isUtf8(body)) throw new HttpError('invalidJson');
  try {
    return JSON.parse(body.toString());
  } catch {
    throw new HttpError('invalidJson');
  }
}

/** Reads a body to its end. A refused one frees its memory at once. */
function receive(request: IncomingMessage, body: BodyBuffer): Promise<void> {
  return new Promise((resolve, reject) => {
    // Node reads on what comes after an early answer, but not on a connection that ends with it: a client that sends
    // all before it reads would never see the answer.
    const maxDiscarded = /\bclose\b/i.test(request.headers.connection ?? '') ? MAX_DISCARDED : 0;
    let refusal: unknown;
    let discarded = 0;
    request.on('data', (chunk: Buffer) => {
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
    const cutOff = () => reject(new HttpError('badRequest'));
    request.once('error', cutOff);
    request.once('close', cutOff);
  });
}

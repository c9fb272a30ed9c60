import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { HttpError } from './errors.ts';

/** Bytes past the limit that are read and thrown away before a connection that is to be closed is closed. */
const MAX_DISCARDED = 16 * 1024 * 1024;

/**
 * The body of a request as a JSON object, whatever its content type says.
 *
 * @param limit bytes that the body may have
 * @returns the object; JSON that is no object comes as one without fields, so that what is missed is the field
 * @throws {HttpError} `invalid JSON`, or `request body too large`
 */
export async function readJsonObject(request: IncomingMessage, limit: number): Promise<Record<string, unknown>> {
  const body = await readBody(request, limit);
  const value = parse(body);
  return isObject(value) ? value : {};
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

function readBody(request: IncomingMessage, limit: number): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const chunks: Buffer[] = [];
    let bytes = 0;
    // Node reads on what comes after an early answer, but not on a connection that ends with it: a client that sends
    // all before it reads would never see the answer.
    const maxDiscarded = /\bclose\b/i.test(request.headers.connection ?? '') ? MAX_DISCARDED : 0;
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes <= limit) chunks.push(chunk);
      else chunks.length = 0;
      if (bytes - limit > maxDiscarded) reject(new HttpError('bodyTooLarge'));
    };
    request.on('data', onData);
    request.once('end', () => {
      if (bytes > limit) reject(new HttpError('bodyTooLarge'));
      else resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks));
    });
    request.once('error', () => reject(new HttpError('badRequest')));
  });
}

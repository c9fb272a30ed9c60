import { isUtf8 } from 'node:buffer';
import type { IncomingMessage } from 'node:http';
import { HttpError } from './errors.ts';

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
    const onData = (chunk: Buffer) => {
      bytes += chunk.length;
      if (bytes > limit) {
        // The answer goes out now; what still comes is read and thrown away, within the server's time limit,
        // for a client that reads nothing before it has written everything.
        request.off('data', onData);
        request.resume();
        reject(new HttpError('bodyTooLarge'));
      } else {
        chunks.push(chunk);
      }
    };
    request.on('data', onData);
    request.once('end', () => resolve(chunks.length === 1 ? (chunks[0] as Buffer) : Buffer.concat(chunks)));
    request.once('error', () => reject(new HttpError('badRequest')));
  });
}

import { isUtf8 } from 'node:buffer';

/**
 * Parses a JSON object. Returns undefined if the bytes are not valid UTF-8 or not valid JSON. Returns an empty object for a
 * JSON value that is not an object, so that the caller reports the first required field as missing.
 */
export function parseJsonObject(bytes: Uint8Array): Record<string, unknown> | undefined {
  // UTF-8 is checked before decoding, because `toString` replaces invalid bytes instead of throwing.
  if (!isUtf8(bytes)) return undefined;
  try {
    const value: unknown = JSON.parse(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString());
    return isObject(value) ? value : {};
  } catch {
    return undefined;
  }
}

export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

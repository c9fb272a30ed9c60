import { isUtf8 } from 'node:buffer';

/** Returns undefined for invalid UTF-8 or JSON, and an empty object for any JSON value that is not an object. */
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

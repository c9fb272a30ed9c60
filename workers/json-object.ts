import { isUtf8 } from 'node:buffer';

/**
 * Parses a JSON text. JSON that is no object becomes an object without fields, so that its first required field is
 * reported missing.
 *
 * @returns undefined if the bytes are no UTF-8 or no JSON
 */
export function parseJsonObject(bytes: Uint8Array): Record<string, unknown> | undefined {
  // Decoding would replace invalid bytes.
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

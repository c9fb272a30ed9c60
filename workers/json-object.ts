import { isUtf8 } from 'node:buffer';

/**
 * Parses a JSON object. Returns undefined if the bytes are not UTF-8 or not JSON, and an object without fields for another JSON value,
 * so that the first required field is reported missing.
 */
export function parseJsonObject(bytes: Uint8Array): Record<string, unknown> | undefined {
  // Checked first, because decoding would replace invalid bytes.
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

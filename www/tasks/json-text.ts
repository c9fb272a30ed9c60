import type { Submission } from './service.ts';

/** Indents JSON text. Invalid JSON is returned unchanged. */
export function indent(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

/** Parses a stored payload. The action of an unparsable payload is `unreadable`. */
export function readPayload(payload: string): Submission {
  try {
    const { action, data } = JSON.parse(payload);
    return { action: String(action), data };
  } catch {
    return { action: 'unreadable', data: {} };
  }
}

/** Returns the handler's output in a stored result as text, or an empty string if there is no result. */
export function readOutput(result: string | null): string {
  if (result === null) return '';
  try {
    const { output } = JSON.parse(result);
    return typeof output === 'string' ? output : JSON.stringify(output);
  } catch {
    return result;
  }
}

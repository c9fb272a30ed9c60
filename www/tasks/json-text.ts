import type { Submission } from './service.ts';

/** Indents JSON text. Invalid JSON is returned unchanged. */
export function indent(json: string): string {
  const value = parse(json);
  return value === undefined ? json : JSON.stringify(value, null, 2);
}

/** Parses a stored payload. The action of an unparsable payload is `unreadable`. */
export function readPayload(payload: string): Submission {
  const { action = 'unreadable', data = {} } = Object(parse(payload));
  return { action: String(action), data };
}

/** Returns the handler's output in a stored result as text, or an empty string if there is no result. */
export function readOutput(result: string | null): string {
  const { output = result ?? '' } = Object(parse(result ?? ''));
  return typeof output === 'string' ? output : JSON.stringify(output);
}

/** Returns the value of JSON text, or undefined if the text is invalid. */
function parse(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

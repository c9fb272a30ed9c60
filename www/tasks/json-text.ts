import type { Submission } from './service.ts';

/** Indents JSON text. Invalid JSON is returned unchanged. */
export function indent(json: string): string {
  const value = parseJson(json);
  return value === undefined ? json : JSON.stringify(value, null, 2);
}

/** Parses a stored payload. The action of an unparsable payload is `unreadable`. */
export function readPayload(payload: string): Submission {
  const { action = 'unreadable', data = {} } = Object(parseJson(payload));
  return { action: String(action), data };
}

/** Returns the handler's output in a stored result as text, or an empty string if there is no result. */
export function readOutput(result: string | null): string {
  const { output = result ?? '' } = Object(parseJson(result ?? ''));
  return typeof output === 'string' ? output : JSON.stringify(output);
}

/** Returns the JSON Pointers of the parts in which two JSON values differ. */
export function differences(one: unknown, other: unknown, pointer = ''): string[] {
  if (one === other) return [];
  const isNested = (value: unknown): value is object => typeof value === 'object' && value !== null;
  if (!isNested(one) || !isNested(other) || Array.isArray(one) !== Array.isArray(other)) return [pointer];
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...keys].flatMap((key) => {
    const step = `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    // An absent member differs from one that is null.
    if (Object.hasOwn(one, key) !== Object.hasOwn(other, key)) return [step];
    return differences(Object(one)[key], Object(other)[key], step);
  });
}

/** Returns the value of JSON text, or undefined if the text is invalid. */
export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

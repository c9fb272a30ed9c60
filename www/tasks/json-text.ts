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

/** Returns the JSON Pointers of the parts in which two JSON values differ. */
export function differences(one: unknown, other: unknown, pointer = ''): string[] {
  if (one === other) return [];
  if (!isNested(one) || !isNested(other) || Array.isArray(one) !== Array.isArray(other)) return [pointer];
  const keys = new Set([...Object.keys(one), ...Object.keys(other)]);
  return [...keys].flatMap((key) => {
    const step = `${pointer}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
    // An absent member differs from one that is null.
    if (Object.hasOwn(one, key) !== Object.hasOwn(other, key)) return [step];
    return differences(Object(one)[key], Object(other)[key], step);
  });
}

/** Whether a JSON value is an object or an array. */
export const isNested = (value: unknown): value is object => typeof value === 'object' && value !== null;

export const isObject = (value: unknown): value is object => isNested(value) && !Array.isArray(value);

/** Parses JSON text. Returns undefined if it is invalid. */
export function parseJson(json: string): unknown {
  try {
    return JSON.parse(json);
  } catch {
    return undefined;
  }
}

interface Value {
  text: string;
  start: number;
  end: number;
  children: Map<string, Value>;
}

/** Returns the offsets of the value at a JSON Pointer in JSON text, or of its nearest parent if there is none. */
export function locate(text: string, pointer: string): { start: number; end: number } {
  let value = read(text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\]]|[^\s{}[\],:"]+/g));
  for (const key of decodePointer(pointer)) {
    const child = value.children.get(key);
    if (child === undefined) break;
    value = child;
  }
  return { start: value.start, end: value.end };
}

/** Reads a value, or a closing bracket. At the end of the text, returns an empty value. */
function read(tokens: Iterator<RegExpExecArray>): Value {
  const { 0: text = '', index: start = 0 } = tokens.next().value ?? {};
  const value: Value = { text, start, end: start + text.length, children: new Map() };
  if (text !== '{' && text !== '[') return value;
  for (let index = 0; ; index++) {
    const first = read(tokens);
    value.end = first.end;
    if (/^[}\]]?$/.test(first.text)) return value;
    // As in `JSON.parse`, the last of several members with the same name counts.
    if (text === '{') value.children.set(JSON.parse(first.text), read(tokens));
    else value.children.set(String(index), first);
  }
}

export function decodePointer(pointer: string): string[] {
  const [, ...keys] = pointer.split('/');
  return keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

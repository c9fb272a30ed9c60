interface Value {
  text: string;
  start: number;
  end: number;
  /** Values of an object or array by key. */
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

/** Returns the unescaped keys of a JSON Pointer. */
export function decodePointer(pointer: string): string[] {
  const [, ...keys] = pointer.split('/');
  return keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

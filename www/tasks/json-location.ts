import { decodePointer } from './json-schema.ts';

interface Token {
  text: string;
  start: number;
}

/**
 * Returns the start and end offset of the value at a JSON Pointer in valid JSON text. If the value is missing, returns
 * the offsets of its nearest parent.
 */
export function locate(text: string, pointer: string): { start: number; end: number } {
  const tokens = [...text.matchAll(/"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/g)].map(
    (match): Token => ({ text: match[0], start: match.index }),
  );
  let value = 0;
  for (const key of decodePointer(pointer)) {
    const child = findChild(tokens, value, key);
    if (child === undefined) break;
    value = child;
  }
  const last = tokens[lastOf(tokens, value)];
  return { start: tokens[value]?.start ?? 0, end: last === undefined ? 0 : last.start + last.text.length };
}

/** Returns the index of the first token of the value at `key` in the object or array that starts at token `parent`. */
function findChild(tokens: Token[], parent: number, key: string): number | undefined {
  const opening = tokens[parent]?.text;
  if (opening !== '{' && opening !== '[') return undefined;
  let found: number | undefined;
  let index = 0;
  for (let token = parent + 1; tokens[token] !== undefined && !/^[}\]]$/.test(tokens[token]?.text ?? ''); index++) {
    const name = opening === '{' ? JSON.parse(tokens[token]?.text ?? '""') : String(index);
    const value = opening === '{' ? token + 2 : token;
    // As in `JSON.parse`, the last value of a duplicate name counts.
    if (name === key) found = value;
    token = lastOf(tokens, value) + 1;
    if (tokens[token]?.text === ',') token++;
  }
  return found;
}

/** Returns the index of the last token of the value that starts at token `first`. */
function lastOf(tokens: Token[], first: number): number {
  let depth = 0;
  for (let token = first; token < tokens.length; token++) {
    const { text } = tokens[token] as Token;
    if (text === '{' || text === '[') depth++;
    if (text === '}' || text === ']') depth--;
    if (depth === 0) return token;
  }
  return tokens.length - 1;
}

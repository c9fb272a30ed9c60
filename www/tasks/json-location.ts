import { decodePointer } from './json-schema.ts';

interface Token {
  text: string;
  start: number;
}

/** Returns the offsets of the value at a JSON Pointer in JSON text, or of its nearest parent if there is none. */
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

/** Returns the first token of the value at `key` in the object or array that starts at the token `parent`. */
function findChild(tokens: Token[], parent: number, key: string): number | undefined {
  const opening = tokens[parent]?.text;
  if (opening !== '{' && opening !== '[') return undefined;
  let found: number | undefined;
  let index = 0;
  for (let token = parent + 1; tokens[token] !== undefined && !/^[}\]]$/.test(tokens[token]?.text ?? ''); index++) {
    const name = opening === '{' ? JSON.parse(tokens[token]?.text ?? '""') : String(index);
    const value = opening === '{' ? token + 2 : token;
    // As in `JSON.parse`, the last of several members with the same name counts.
    if (name === key) found = value;
    token = lastOf(tokens, value) + 1;
    if (tokens[token]?.text === ',') token++;
  }
  return found;
}

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

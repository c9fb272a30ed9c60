import { visibleText } from './texts.ts';

/** Entries of an object or array that are shown, and nested levels. What is beyond is in the text only. */
const MAX_ENTRIES = 100;
const MAX_DEPTH = 8;
const OPEN_DEPTH = 2;
const MAX_CHARACTERS = 200;

/** Objects and arrays of a JSON value as folders. Shows nothing for any other value. */
export function JsonTree({ value, depth = 0 }: { value: unknown; depth?: number }) {
  if (typeof value !== 'object' || value === null || depth > MAX_DEPTH) return null;
  const entries = Object.entries(value);
  return (
    <ul class="tree small" data-part={depth === 0 ? 'tree' : undefined}>
      {entries.slice(0, MAX_ENTRIES).map(([key, each]) => (
        <li key={key}>
          {typeof each !== 'object' || each === null || Object.keys(each).length === 0 || depth === MAX_DEPTH ? (
            <>
              <bdi class="quiet">{visibleText(key)}</bdi>: <bdi>{scalarText(each)}</bdi>
            </>
          ) : (
            <details open={depth + 1 < OPEN_DEPTH}>
              <summary>
                <bdi class="quiet">{visibleText(key)}</bdi>: {countText(each)}
              </summary>
              <JsonTree value={each} depth={depth + 1} />
            </details>
          )}
        </li>
      ))}
      {entries.length > MAX_ENTRIES && <li class="quiet">{entries.length - MAX_ENTRIES} more</li>}
    </ul>
  );
}

function countText(value: object): string {
  const count = Object.keys(value).length;
  return Array.isArray(value) ? `[${count}]` : `{${count}}`;
}

function scalarText(value: unknown): string {
  const text = typeof value === 'object' && value !== null ? countText(value) : JSON.stringify(value);
  return visibleText(text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text);
}

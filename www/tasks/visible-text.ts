const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Escapes bidirectional control characters such as `\u202e`, which would change the visible order of the text. */
export function visibleText(text: string): string {
  return text.replace(BIDI_CONTROLS, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Returns the data of a payload as one line of JSON. The payload may be truncated. */
export function dataText(payload: string): string {
  const start = payload.indexOf('"data":');
  if (start < 0) return '';
  const isWhole = payload.endsWith('}');
  const text = payload.slice(start + '"data":'.length);
  return visibleText(isWhole ? text.replace(/,"created_at":\d+}$|}$/, '') : `${text}…`);
}

/** Returns the handler's output in a result as text. The result may be truncated. */
export function outputText(result: string | null): string {
  if (result === null) return '';
  const { output, isCut } = parseOutput(result);
  const text = typeof output === 'string' ? output : JSON.stringify(output);
  return visibleText(isCut ? `${text}…` : text);
}

function parseOutput(result: string): { output: unknown; isCut?: boolean } {
  try {
    return { output: JSON.parse(result).output };
  } catch {
    const rest = result.replace(/^{"output":/, '');
    try {
      // A truncated string may end within an escape sequence.
      return { output: JSON.parse(`${rest.replace(/\\(u[0-9a-f]{0,3})?$/i, '')}"`), isCut: true };
    } catch {
      return { output: rest, isCut: true };
    }
  }
}

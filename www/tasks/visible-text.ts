const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/**
 * Returns `text` with bidirectional control characters written as escapes such as `\u202e`. As characters, they would
 * show the text after them in another order than it has.
 */
export function visibleText(text: string): string {
  return text.replace(BIDI_CONTROLS, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

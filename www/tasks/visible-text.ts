const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Escapes bidirectional control characters such as `\u202e`, which would change the visible order of the text. */
export function visibleText(text: string): string {
  return text.replace(BIDI_CONTROLS, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

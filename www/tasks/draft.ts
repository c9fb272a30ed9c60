import type { Submission } from './service.ts';

/** Values of the submit form's fields, as entered by the user. */
export interface Draft {
  kind: 'uppercase' | 'sum' | 'other';
  text: string;
  numbers: string;
  /** Name of the chosen action, or an empty string or undefined if the user types the name into `action`. */
  choice?: string;
  action: string;
  json: string;
}

export type DraftField = Exclude<keyof Draft, 'kind' | 'choice'>;

/** Message for the user about an invalid field of the submit form. */
export class DraftError extends Error {
  override name = 'DraftError';
  readonly field: DraftField;

  constructor(field: DraftField, message: string) {
    super(message);
    this.field = field;
  }
}

/** @throws {DraftError} if a field is invalid */
export function parseDraft(draft: Draft): Submission {
  switch (draft.kind) {
    case 'uppercase':
      return { action: 'uppercase', data: { text: draft.text } };
    case 'sum':
      return { action: 'sum', data: { numbers: parseNumbers(draft.numbers) } };
    case 'other':
      if (draft.choice) return { action: draft.choice, data: parseData(draft.json) };
      if (draft.action.trim() === '') throw new DraftError('action', 'Give the action a name.');
      return { action: draft.action.trim(), data: parseData(draft.json) };
  }
}

function parseNumbers(text: string): number[] {
  const words = text.split(/[\s,;]+/).filter((word) => word !== '');
  return words.map((word) => {
    const number = Number(word);
    if (!Number.isFinite(number)) throw new DraftError('numbers', `“${word}” is not a number.`);
    return number;
  });
}

function parseData(text: string): Record<string, unknown> {
  if (text.trim() === '') return {};
  let data: unknown;
  try {
    data = JSON.parse(text);
  } catch (error) {
    throw new DraftError('json', `This is not JSON: ${(error as Error).message}.`);
  }
  if (typeof data !== 'object' || data === null || Array.isArray(data)) {
    throw new DraftError('json', 'The data must be a JSON object, as in {"key": "value"}.');
  }
  return data as Record<string, unknown>;
}

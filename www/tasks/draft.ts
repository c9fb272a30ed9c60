import type { ActionList } from '../client/task-client.ts';
import { aboutOf, dataTemplate } from './data-schema.ts';
import { FieldError, type FormField, parseData } from './fields.ts';
import type { Submission } from './service.ts';

const KINDS = ['uppercase', 'sum', 'other'] as const;

export interface Draft {
  kind: (typeof KINDS)[number];
  text: string;
  numbers: string;
  /** Name of the chosen action, or an empty string if the user types the name into `action`. */
  choice?: string;
  action: string;
  /** JSON text of the data by chosen action. */
  data: Readonly<Record<string, string>>;
}

export type Form = ReturnType<typeof formOf>;

/**
 * Returns the form for a draft: the kinds of tasks, the actions to choose from, and the chosen action with its schema
 * and data. `uppercase` and `sum` are kinds of their own, unless the service has a schema for them.
 */
export function formOf(draft: Draft, { actions, unknown_actions }: ActionList) {
  const chosen = actions.filter(({ name, schema }) => schema !== undefined || !KINDS.some((kind) => kind === name));
  const names = chosen.map(({ name }) => name);
  const choices = unknown_actions === 'process' || draft.choice === '' ? [...names, ''] : names;
  const kinds = KINDS.filter((kind) => (kind === 'other' ? choices.length > 0 : !names.includes(kind)));
  const kind = kinds.find((each) => each === draft.kind) ?? kinds[0];
  const choice = choices.find((each) => each === draft.choice) ?? choices[0] ?? '';
  const schema = chosen.find(({ name }) => name === choice)?.schema;
  const json = draft.data[choice] ?? JSON.stringify(dataTemplate(schema ?? {}), null, 2);
  return { ...draft, kinds, kind, names, choices, choice, schema, json };
}

export function fieldsOf({ kind, names, choices, choice, schema }: Form): FormField[] {
  if (kind === 'uppercase') return [{ name: 'text', label: 'Text', rows: 3 }];
  const numbersHint = 'Separated by commas or spaces, with a point before decimals.';
  if (kind === 'sum') return [{ name: 'numbers', label: 'Numbers', rows: 3, hint: numbersHint }];
  const labels = choices.map((name): [string, string] => [name, name || 'another action']);
  const label = names.length > 0 ? 'Name of the action' : 'Action';
  return [
    ...(names.length > 0 ? [{ name: 'choice', label: 'Action', hint: aboutOf(schema ?? {}), choices: labels }] : []),
    ...(choice === '' ? [{ name: 'action', label, hint: 'Any name will do; its output is “processed”.' }] : []),
    { name: 'json', label: 'Data', hint: 'A JSON object.', rows: 4, class: 'code', parse: parseData },
  ];
}

/** Returns the changes to the draft that queues a task like an earlier one. */
export function draftOf({ action, data }: Submission, { kinds, names, data: texts }: Form): Partial<Draft> {
  const { text, numbers } = data ?? {};
  const kind = kinds.find((each) => each === action);
  if (kind === 'uppercase' && typeof text === 'string') return { kind, text };
  if (kind === 'sum' && isNumbers(numbers)) return { kind, numbers: numbers.join(', ') };
  const choice = names.includes(action) ? action : '';
  return { kind: 'other', action, choice, data: { ...texts, [choice]: JSON.stringify(data ?? {}, null, 2) } };
}

/** Returns the task of a form. @throws {FieldError} if a field is invalid */
export function parseForm({ kind, text, numbers, choice, action, json }: Form): Submission {
  if (kind === 'uppercase') return { action: kind, data: { text } };
  if (kind === 'sum') return { action: kind, data: { numbers: parseNumbers(numbers) } };
  const name = choice || action.trim();
  if (name === '') throw new FieldError('action', 'Give the action a name.');
  return { action: name, data: parseData(json, 'json') };
}

function parseNumbers(text: string): number[] {
  const words = text.split(/[\s,;]+/).filter((word) => word !== '');
  return words.map((word) => {
    const number = Number(word);
    if (!Number.isFinite(number)) throw new FieldError('numbers', `“${word}” is not a number.`);
    return number;
  });
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'number');
}

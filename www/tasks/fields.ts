import { ServiceError } from '../client/errors.ts';
import { isObject } from './json-text.ts';

export interface FormField {
  /** Path of the value in the edited object, such as `rate/count`. */
  name: string;
  label: string;
  hint?: string;
  choices?: [value: string, label: string][];
  /** Number of lines, if the text may have several. */
  rows?: number;
  class?: string;
  initial?: string;
  /** @throws {FieldError} */
  parse?(text: string, name: string): unknown;
}

/** Problem to show to the user, at a field if it has a name. */
export interface Problem {
  field: string | undefined;
  message: string;
  /** JSON Pointer of the wrong part of the data. */
  path?: string;
}

export class FieldError extends Error {
  override name = 'FieldError';
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

/** Parses the text of a field as a JSON object. @throws {FieldError} */
export function parseData(text: string, field: string): Record<string, unknown> {
  let data: unknown;
  try {
    data = JSON.parse(text.trim() || '{}');
  } catch (error) {
    throw new FieldError(field, `This is not JSON: ${(error as Error).message}.`);
  }
  if (isObject(data)) return data as Record<string, unknown>;
  throw new FieldError(field, 'The data must be a JSON object, as in {"key": "value"}.');
}

/** Returns the text of a field for an object, or an empty string if the object has no value for the field. */
export function textOf({ name }: FormField, object: object): string {
  const value = name.split('/').reduce<unknown>((parent, key) => Object(parent)[key], object);
  return typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value ?? '');
}

/** Returns the object of the fields that are not empty. @throws {FieldError} */
export function objectOf(fields: readonly FormField[], texts: Readonly<Record<string, string>>) {
  const object: Record<string, unknown> = {};
  for (const { name, parse = String } of fields) {
    const text = texts[name]?.trim() ?? '';
    if (text === '') continue;
    const [last = '', ...parents] = name.split('/').reverse();
    const parent = parents.reduceRight((outer, key) => {
      outer[key] ??= {};
      return outer[key] as Record<string, unknown>;
    }, object);
    parent[last] = parse(text, name);
  }
  return object;
}

/** Returns the problem that an error is about, at the field that the error names if it is one of `fields`. */
export function placeError(error: Error, fields: readonly FormField[]): Problem {
  const { message } = error;
  if (error instanceof FieldError) return { field: error.field, message };
  const isField = (name: string) => fields.some((field) => field.name === name);
  const { path, detail = message } = error instanceof ServiceError ? error : {};
  if (path === undefined) return { field: message.split(' ').find(isField), message };
  const whole = `${message}: ${path || 'it'} ${detail}`;
  // A path of invalid data leads into the data.
  if (message === 'invalid data') {
    return { field: fields.find(({ parse }) => parse === parseData)?.name, message: whole, path };
  }
  const name = path.slice(1);
  return isField(name) ? { field: name, message: detail } : { field: undefined, message: whole };
}

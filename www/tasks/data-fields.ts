import { decodePointer, propertiesOf, resolve, type Schema, typesOf } from './json-schema.ts';

export interface DataField {
  /** JSON Pointer in which `*` stands for every array index. */
  path: string;
  /** Name such as `size.width` or `numbers[]`. */
  name: string;
  required: boolean;
  /** Types, allowed values and bounds, such as `integer, 1 to 100`. */
  kind: string;
  /** Title and description of the field in the JSON Schema, or an empty string. */
  about: string;
}

const MAX_FIELDS = 100;
const MAX_DEPTH = 5;
const MAX_VALUES = 8;

/** Returns the fields that a JSON Schema describes, at most {@link MAX_FIELDS}. Required fields come first. */
export function dataFields(schema: object): DataField[] {
  const fields: DataField[] = [];
  collect(schema, { path: '', name: '' }, 0);
  return fields;

  function collect(part: unknown, place: { path: string; name: string }, depth: number): void {
    const own = resolve(part, schema);
    if (depth > MAX_DEPTH) return;
    for (const [key, each, required] of propertiesOf(own)) {
      if (fields.length >= MAX_FIELDS) return;
      const path = `${place.path}/${key.replaceAll('~', '~0').replaceAll('/', '~1')}`;
      const name = place.name === '' ? key : `${place.name}.${key}`;
      const field = resolve(each, schema);
      fields.push({ path, name, required, kind: describeKind(field, schema), about: describeText(field) });
      collect(field, { path, name }, depth + 1);
    }
    if (own.items !== undefined) collect(own.items, { path: `${place.path}/*`, name: `${place.name}[]` }, depth + 1);
  }
}

/** Returns the field at a JSON Pointer, or its nearest parent that is in `fields`. */
export function fieldAt(fields: readonly DataField[], pointer: string): DataField | undefined {
  const keys = decodePointer(pointer);
  for (let length = keys.length; length > 0; length--) {
    const found = fields.find(({ path }) => covers(decodePointer(path), keys.slice(0, length)));
    if (found !== undefined) return found;
  }
  return undefined;
}

function covers(pattern: string[], keys: string[]): boolean {
  return pattern.length === keys.length && pattern.every((each, index) => each === '*' || each === keys[index]);
}

function describeKind(field: Schema, root: object): string {
  const types = typesOf(field);
  const items = types.includes('array') ? typesOf(resolve(field.items, root)) : [];
  const type = items.length > 0 ? `array of ${items.join(' or ')}` : types.join(' or ');
  return [type, describeValues(field), describeBounds(field)].filter((text) => text !== '').join(', ');
}

function describeValues({ const: fixed, enum: values = fixed === undefined ? [] : [fixed] }: Schema): string {
  const shown = values.slice(0, MAX_VALUES).map((value) => JSON.stringify(value));
  if (values.length > MAX_VALUES) shown.push('…');
  return shown.length === 1 ? `always ${shown[0]}` : shown.join(' or ');
}

function describeBounds({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Schema): string {
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
  const bounds = [
    minimum !== undefined && `at least ${minimum}`,
    exclusiveMinimum !== undefined && `above ${exclusiveMinimum}`,
    maximum !== undefined && `at most ${maximum}`,
    exclusiveMaximum !== undefined && `below ${exclusiveMaximum}`,
  ];
  return bounds.filter((bound) => bound !== false).join(', ');
}

function describeText({ title, description }: Schema): string {
  return [title, description].filter((text) => text !== undefined && text !== '').join(': ');
}

import { decodePointer, isObject } from './json-text.ts';

type Bound = 'minimum' | 'maximum' | 'exclusiveMinimum' | 'exclusiveMaximum' | 'minItems';

/** Keywords of a JSON Schema that the form uses. The schema is not checked, so a value may have any type. */
type Schema = Partial<
  Record<Bound, number> &
    Record<'$ref' | 'title' | 'description', string> &
    Record<'allOf' | 'anyOf' | 'oneOf' | 'enum' | 'examples', unknown[]> &
    Record<'const' | 'default' | 'items' | 'properties', unknown> & { type: string | string[]; required: string[] }
>;

interface DataField {
  /** Keys that lead to the field. `*` stands for every array index. */
  keys: readonly string[];
  /** Name such as `size.width` or `numbers[]`. */
  name: string;
  required: boolean;
  /** Types, allowed values and bounds, such as `integer, 1 to 100`. */
  kind: string;
  about: string;
}

/** Maximum number of nested references, because a schema may refer to itself. */
const MAX_REFERENCES = 10;
const MAX_TEMPLATE_DEPTH = 8;
const MAX_FIELDS = 100;
const MAX_KEYS = 5;
const MAX_VALUES = 8;

/** Returns example data for a JSON Schema: the required fields, and the optional fields with a default or example. */
export function dataTemplate(schema: object): object {
  const value = templateOf(schema, schema, 0);
  return isObject(value) ? value : {};
}

/** Returns the fields that a JSON Schema describes, at most {@link MAX_FIELDS}. Required fields come first. */
export function dataFields(schema: object): DataField[] {
  const fields: DataField[] = [];
  const collect = (part: unknown, parents: readonly string[]) => {
    const { items, ...own } = resolve(part, schema);
    if (parents.length > MAX_KEYS) return;
    for (const property of propertiesOf(own)) {
      if (fields.length >= MAX_FIELDS) return;
      const { required } = property;
      const field = resolve(property.schema, schema);
      const keys = [...parents, property.name];
      const name = keys.map((each) => (each === '*' ? '[]' : `.${each}`)).join('');
      fields.push({ keys, name: name.slice(1), required, kind: kindOf(field, schema), about: aboutOf(field) });
      collect(field, keys);
    }
    if (items !== undefined) collect(items, [...parents, '*']);
  };
  collect(schema, []);
  return fields;
}

/** Returns the field at a JSON Pointer, or its nearest parent that is in `fields`. */
export function fieldAt(fields: readonly DataField[], pointer: string): DataField | undefined {
  const wanted = decodePointer(pointer);
  const parents = fields.filter(({ keys }) => keys.every((key, index) => key === '*' || key === wanted[index]));
  return parents.sort((one, other) => other.keys.length - one.keys.length)[0];
}

export function aboutOf({ title, description }: Schema): string {
  return [title, description].filter((text) => typeof text === 'string' && text !== '').join(': ');
}

function kindOf(field: Schema, root: object): string {
  const types = typesOf(field);
  const items = types.includes('array') ? typesOf(resolve(field.items, root)) : [];
  const type = items.length > 0 ? `array of ${items.join(' or ')}` : types.join(' or ');
  return [type, describeValues(field), describeBounds(field)].filter((text) => text !== '').join(', ');
}

function describeValues({ enum: given }: Schema): string {
  const values = listOf(given);
  const shown = values.slice(0, MAX_VALUES).map((value) => JSON.stringify(value));
  if (values.length > MAX_VALUES) shown.push('…');
  return shown.length === 1 ? `always ${shown[0]}` : shown.join(' or ');
}

function describeBounds({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Schema): string {
  if (minimum !== undefined && maximum !== undefined) return `${minimum} to ${maximum}`;
  const bounds = { 'at least': minimum, above: exclusiveMinimum, 'at most': maximum, below: exclusiveMaximum };
  const given = Object.entries(bounds).filter(([, bound]) => bound !== undefined);
  return given.map(([name, bound]) => `${name} ${bound}`).join(', ');
}

function templateOf(part: unknown, root: object, depth: number): unknown {
  const schema = resolve(part, root);
  const example = exampleOf(schema);
  if (example !== undefined) return example;
  if (depth > MAX_TEMPLATE_DEPTH) return null;
  const [type] = typesOf(schema);
  if (type === 'object') {
    const hasExample = (each: unknown) => exampleOf(resolve(each, root)) !== undefined;
    const shown = propertiesOf(schema).filter((each) => each.required || hasExample(each.schema));
    return Object.fromEntries(shown.map((each) => [each.name, templateOf(each.schema, root, depth + 1)]));
  }
  if (type === 'array') return (schema.minItems ?? 0) > 0 ? [templateOf(schema.items, root, depth + 1)] : [];
  if (type === 'number' || type === 'integer') return smallestNumber(schema);
  return type === 'boolean' ? false : type === 'null' ? null : '';
}

function exampleOf({ default: usual, examples, enum: values }: Schema): unknown {
  return [usual, ...listOf(examples), ...listOf(values)].find((each) => each !== undefined);
}

/** Returns 0, or a number near the closest bound if 0 is out of bounds. */
function smallestNumber({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Schema): number {
  const least = exclusiveMinimum === undefined ? minimum : exclusiveMinimum + 1;
  const most = exclusiveMaximum === undefined ? maximum : exclusiveMaximum - 1;
  return Math.min(Math.max(0, least ?? 0), most ?? Number.POSITIVE_INFINITY);
}

/** Resolves `$ref` and `allOf` in a part of the schema `root`, the first branch of `anyOf` and `oneOf`, and `const` as `enum`. */
function resolve(part: unknown, root: unknown, references = 0): Schema {
  if (!isObject(part) || references > MAX_REFERENCES) return {};
  const { $ref, allOf, anyOf, oneOf, const: fixed, ...own } = part as Schema;
  if (fixed !== undefined) own.enum = [fixed];
  const target = $ref === undefined ? [] : [find($ref, root)];
  const branches = [...target, ...listOf(allOf), ...listOf(anyOf).slice(0, 1), ...listOf(oneOf).slice(0, 1)];
  return branches
    .map((branch) => resolve(branch, root, references + 1))
    .reduceRight((merged: Schema, branch) => merge(branch, merged), own);
}

function merge(base: Schema, over: Schema): Schema {
  const properties = { ...Object(base.properties), ...Object(over.properties) };
  return { ...base, ...over, properties, required: [...listOf(base.required), ...listOf(over.required)] };
}

/** Returns the part of `root` at a reference such as `#/$defs/size`, or undefined for any other reference. */
function find(reference: string, root: unknown): unknown {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  const keys = decodePointer(decodeURIComponent(reference.slice(1)));
  return keys.reduce<unknown>((part, key) => Object(part)[key], root);
}

/** Returns the properties of a schema, required ones first. */
function propertiesOf({ properties, required }: Schema) {
  const needed = listOf(required);
  const all = Object.entries(Object(properties)).map(([name, schema]) => ({
    name,
    schema,
    required: needed.includes(name),
  }));
  return all.sort((one, other) => Number(other.required) - Number(one.required));
}

/** Returns the types that a schema allows, inferred from other keywords if `type` is missing. */
function typesOf({ type, properties, items, enum: values }: Schema): string[] {
  if (type !== undefined) return [type].flat();
  if (Object.keys(Object(properties)).length > 0) return ['object'];
  if (items !== undefined) return ['array'];
  const [value] = listOf(values);
  return value === undefined ? [] : [value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value];
}

const listOf = <Item>(value: Item[] | undefined): Item[] => (Array.isArray(value) ? value : []);

export interface Schema {
  $ref?: string;
  allOf?: unknown[];
  anyOf?: unknown[];
  oneOf?: unknown[];
  type?: string | string[];
  title?: string;
  description?: string;
  default?: unknown;
  examples?: unknown[];
  const?: unknown;
  enum?: unknown[];
  properties?: Record<string, unknown>;
  required?: string[];
  items?: unknown;
  minItems?: number;
  minimum?: number;
  maximum?: number;
  exclusiveMinimum?: number;
  exclusiveMaximum?: number;
}

/** Maximum number of nested references, because a schema may refer to itself. */
const MAX_REFERENCES = 10;

/** Resolves `$ref` and `allOf` in a part of the schema `root`, and the first branch of `anyOf` and `oneOf`. */
export function resolve(part: unknown, root: unknown, references = 0): Schema {
  if (!isObject(part) || references > MAX_REFERENCES) return {};
  const { $ref, allOf = [], anyOf = [], oneOf = [], ...own } = part as Schema;
  const target = $ref === undefined ? [] : [find($ref, root)];
  const branches = [...target, ...list(allOf), ...list(anyOf).slice(0, 1), ...list(oneOf).slice(0, 1)];
  return branches
    .map((branch) => resolve(branch, root, references + 1))
    .reduceRight((merged: Schema, branch) => merge(branch, merged), own);
}

/** Returns the properties of a schema, required properties first. */
export function propertiesOf({ properties, required }: Schema): [name: string, schema: unknown, required: boolean][] {
  const needed = new Set(list(required));
  const all = isObject(properties) ? Object.entries(properties) : [];
  const entries = all.map(([name, schema]): [string, unknown, boolean] => [name, schema, needed.has(name)]);
  return [...entries.filter(([, , isRequired]) => isRequired), ...entries.filter(([, , isRequired]) => !isRequired)];
}

/** Returns the types that a schema allows, inferred from other keywords if `type` is missing. */
export function typesOf({ type, properties, items, const: fixed, enum: values = [] }: Schema): string[] {
  if (type !== undefined) return [type].flat();
  if (properties !== undefined) return ['object'];
  if (items !== undefined) return ['array'];
  const [value = fixed] = list(values);
  return value === undefined ? [] : [value === null ? 'null' : Array.isArray(value) ? 'array' : typeof value];
}

function merge(base: Schema, over: Schema): Schema {
  const properties = { ...base.properties, ...over.properties };
  const required = [...list(base.required), ...list(over.required)];
  return {
    ...base,
    ...over,
    ...(Object.keys(properties).length > 0 && { properties }),
    ...(required.length > 0 && { required }),
  };
}

/** Returns the part of `root` at a reference such as `#/$defs/size`, or undefined for any other reference. */
function find(reference: string, root: unknown): unknown {
  if (!/^#(\/|$)/.test(reference)) return undefined;
  return decodePointer(decodeURIComponent(reference.slice(1))).reduce(
    (node: unknown, key) =>
      isObject(node) || Array.isArray(node) ? (node as Record<string, unknown>)[key] : undefined,
    root,
  );
}

/** Returns the unescaped keys of a JSON Pointer. */
export function decodePointer(pointer: string): string[] {
  const [, ...keys] = pointer.split('/');
  return keys.map((key) => key.replaceAll('~1', '/').replaceAll('~0', '~'));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function list<Item>(value: Item[] | undefined): Item[] {
  return Array.isArray(value) ? value : [];
}

import { propertiesOf, resolve, type Schema, typesOf } from './json-schema.ts';

/** Maximum depth of nested fields, because a schema may refer to itself. */
const MAX_DEPTH = 8;

/** Returns example data for a JSON Schema: the required fields, and the optional fields with a default or example. */
export function dataTemplate(schema: object): Record<string, unknown> {
  const value = templateOf(schema, schema, 0);
  return typeof value === 'object' && value !== null && !Array.isArray(value) ? { ...value } : {};
}

function templateOf(part: unknown, root: object, depth: number): unknown {
  const schema = resolve(part, root);
  if (hasExample(schema)) return exampleOf(schema);
  if (depth > MAX_DEPTH) return null;
  const [type] = typesOf(schema);
  switch (type) {
    case 'object': {
      const shown = propertiesOf(schema).filter(([, each, required]) => required || hasExample(resolve(each, root)));
      return Object.fromEntries(shown.map(([name, each]) => [name, templateOf(each, root, depth + 1)]));
    }
    case 'array':
      return (schema.minItems ?? 0) > 0 ? [templateOf(schema.items, root, depth + 1)] : [];
    case 'number':
    case 'integer':
      return smallestNumber(schema);
    case 'boolean':
      return false;
    case 'null':
      return null;
    default:
      return '';
  }
}

function hasExample(schema: Schema): boolean {
  return exampleOf(schema) !== undefined;
}

function exampleOf({ default: usual, examples, const: fixed, enum: values }: Schema): unknown {
  if (usual !== undefined) return usual;
  if (Array.isArray(examples) && examples.length > 0) return examples[0];
  return fixed !== undefined || !Array.isArray(values) ? fixed : values[0];
}

/** Returns 0, or a number near the closest bound if 0 is out of bounds. */
function smallestNumber({ minimum, exclusiveMinimum, maximum, exclusiveMaximum }: Schema): number {
  const least = exclusiveMinimum === undefined ? minimum : exclusiveMinimum + 1;
  const most = exclusiveMaximum === undefined ? maximum : exclusiveMaximum - 1;
  return Math.min(Math.max(0, least ?? 0), most ?? Number.POSITIVE_INFINITY);
}

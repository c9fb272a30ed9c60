import { Check, Compile, Errors, Meta, type XSchemaObject } from 'typebox/schema';
import { Hashing } from 'typebox/system';
import { isObject } from '../shared/json-object.ts';
import { nearestNames } from '../shared/nearest-names.ts';
import { builtInActions } from '../tasks/actions.ts';
import type { SubmissionRules } from '../tasks/messages.ts';
import type { SubmissionCheck } from './parse-submission.ts';
import type { WrongField } from './submission-options.ts';

export type DataCheck = (data: unknown) => WrongField | undefined;

const DEFAULT_DIALECT = 'https://json-schema.org/draft/2020-12/schema';

/** JSON Schema keywords with a value that is data or an annotation, not a schema. */
const DATA_KEYWORDS = new Set(['const', 'enum', 'default', 'examples']);

/** JSON Schema keywords with a value that maps arbitrary names to schemas. */
const MAP_KEYWORDS = new Set([
  '$defs',
  'definitions',
  'dependencies',
  'dependentSchemas',
  'patternProperties',
  'properties',
]);

/** JSON Schema keywords that can make a check very slow: regular expressions, recursion, and hashing of array items. */
const COSTLY_KEYWORDS = new Set([
  '$dynamicRef',
  '$recursiveRef',
  '$ref',
  'pattern',
  'patternProperties',
  'uniqueItems',
]);

/**
 * Combines the rules into a check.
 *
 * @param onLimited called before a check that needs a time limit. A result replaces that of the check
 * @throws {Error} if a schema does not compile
 */
export function submissionCheck<Other = never>(
  { actions, rejectUnknown }: SubmissionRules,
  onLimited?: (action: string) => Other | undefined,
): SubmissionCheck<Other> {
  const known = new Set([...builtInActions, ...actions.keys()]);
  const checks = new Map<string, { check: DataCheck; isLimited: boolean }>();
  for (const [action, { schema }] of actions) {
    if (schema !== undefined) checks.set(action, { check: compileSchema(schema), isLimited: needsTimeLimit(schema) });
  }
  return (action, data) => {
    if (rejectUnknown && !known.has(action)) {
      const nearest = nearestNames(action, known);
      return { error: 'unknownAction', ...(nearest.length > 0 && { field: { nearest } }) };
    }
    const { check, isLimited } = checks.get(action) ?? {};
    const other = isLimited ? onLimited?.(action) : undefined;
    if (other !== undefined) return other;
    const field = check?.(data);
    return field && { error: 'invalidData', field };
  };
}

/** Whether checks against a JSON Schema need a time limit. Also true if a property is named like a costly keyword. */
function needsTimeLimit(schema: object): boolean {
  let isCostly = false;
  JSON.stringify(schema, (key, value) => {
    isCostly ||= COSTLY_KEYWORDS.has(key);
    return value;
  });
  return isCostly;
}

/** @throws {Error} with the first problem if the schema is invalid or a `$ref` points outside the schema */
export function compileSchema(schema: object): DataCheck {
  const { $schema = DEFAULT_DIALECT } = schema as { $schema?: keyof typeof Meta };
  const dialect: XSchemaObject | undefined = Meta[$schema];
  if (dialect === undefined) throw new Error(`unknown $schema ${JSON.stringify($schema)}`);
  if (!Check(dialect, schema)) {
    const { path, detail } = firstError(dialect, schema);
    throw new Error(`${path || 'the schema'} ${detail}`);
  }
  checkReferences(schema);
  const validator = Compile(schema as XSchemaObject);
  // Throws if the schema refers to itself only, without an end.
  validator.Check({});
  const explained = withLinearErrors(schema);
  return (data) => (validator.Check(data) ? undefined : firstError(explained, data));
}

/** Checks `uniqueItems` by hash, because TypeBox's `Errors` takes quadratic time for many duplicate items. */
function withLinearErrors(schema: object): object {
  const copy = structuredClone(schema);
  for (const subschema of subschemas(copy)) {
    if (subschema.uniqueItems !== true) continue;
    delete subschema.uniqueItems;
    subschema['~refine'] = [{ check: hasUniqueItems, error: () => 'must not have duplicate items' }];
  }
  return copy;
}

function hasUniqueItems(value: unknown): boolean {
  return !Array.isArray(value) || new Set(value.map((item) => Hashing.Hash(item))).size === value.length;
}

function firstError(schema: XSchemaObject, value: unknown): WrongField {
  const [, [error]] = Errors(schema, value);
  if (error === undefined) return { path: '', detail: 'must match the schema' };
  const { keyword, params, instancePath: path, message: detail } = error;
  if (keyword === 'required') return { path: below(path, params.requiredProperties), detail: 'must be present' };
  // The keyword `boolean` means that the property's schema is `false`, which allows no value.
  return { path, detail: keyword === 'boolean' ? 'must not be present' : detail };
}

function below(path: string, [name = '']: readonly string[]): string {
  return `${path}/${name.replaceAll('~', '~0').replaceAll('/', '~1')}`;
}

/** Throws if a `$ref` points to no part of `root`, because the compiler would treat it as the schema `false`. */
function checkReferences(root: object): void {
  for (const { $ref } of subschemas(root)) {
    if (typeof $ref === 'string' && !isWithin(root, $ref))
      throw new Error(`$ref ${JSON.stringify($ref)} leads nowhere`);
  }
}

/** Also yields the values of unknown keywords, because a `$ref` can point to such values. */
function* subschemas(node: unknown): Generator<Record<string, unknown>> {
  if (Array.isArray(node)) for (const item of node) yield* subschemas(item);
  if (!isObject(node)) return;
  yield node;
  for (const [keyword, value] of Object.entries(node)) {
    if (DATA_KEYWORDS.has(keyword)) continue;
    yield* subschemas(MAP_KEYWORDS.has(keyword) && isObject(value) ? Object.values(value) : value);
  }
}

function isWithin(root: object, reference: string): boolean {
  if (!/^#(\/|$)/.test(reference)) {
    const names = [`"$id":${JSON.stringify(reference)}`, `"$anchor":${JSON.stringify(reference.slice(1))}`];
    return names.some((name) => JSON.stringify(root).includes(name));
  }
  let node: unknown = root;
  for (const part of decodeURIComponent(reference).split('/').slice(1)) {
    const key = part.replaceAll('~1', '/').replaceAll('~0', '~');
    if (typeof node !== 'object' || node === null || !Object.hasOwn(node, key)) return false;
    node = (node as Record<string, unknown>)[key];
  }
  return true;
}

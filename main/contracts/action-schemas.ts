import { builtInActions } from '../../workers/actions.ts';
import type { HandlersManifest, SubmissionRules } from '../../workers/handlers-manifest.ts';

interface Document {
  components: { schemas: { Submission: { examples?: unknown; properties: { action: object } } } };
}

/** Returns a copy of the OpenAPI document whose schema `Submission` names all actions and describes their data. */
export function describeActions<Own extends Document>(document: Own, { actions, rejectUnknown }: SubmissionRules): Own {
  if (actions.size === 0 && !rejectUnknown) return document;
  const known = [...new Set([...builtInActions, ...actions.keys()])];
  const names = known.map((name) => `\`${name}\``).join(', ');
  // Examples are omitted, because they may not match the extended schema.
  const { examples: _, properties, ...base } = document.components.schemas.Submission;
  const action = rejectUnknown
    ? { ...properties.action, description: names, enum: known }
    : { ...properties.action, description: `${names}, or any other string, which outputs \`processed\`` };
  const { dataSchemas, branches } = describeData(actions);
  const anyOf = branches.length > 0 && { anyOf: branches };
  const Submission = { ...base, properties: { ...properties, action }, ...anyOf };
  const schemas = { ...document.components.schemas, Submission, ...dataSchemas };
  return { ...document, components: { ...document.components, schemas } };
}

/** Returns the schema of each action's data by its name in the document, and the alternatives of a submission. */
function describeData(actions: HandlersManifest): { dataSchemas: Record<string, object>; branches: object[] } {
  const described = new Map<string, object>();
  for (const [name, { schema }] of actions) if (schema !== undefined) described.set(name, schema);
  const dataSchemas: Record<string, object> = {};
  if (described.size === 0) return { dataSchemas, branches: [] };
  const branches = [...described].map(([name, schema], index) => {
    const key = `Data${index + 1}_${name.replace(/[^\w.-]/g, '_')}`;
    dataSchemas[key] = moveReferences(schema, `#/components/schemas/${key}`);
    const action = { const: name };
    const required = ['action', ...(hasRequiredFields(schema) ? ['data'] : [])];
    return {
      title: name,
      type: 'object',
      properties: { action, data: { $ref: `#/components/schemas/${key}` } },
      required,
    };
  });
  const action = { type: 'string', not: { enum: [...described.keys()] } };
  const rest = { type: 'object', properties: { action, data: { type: 'object' } }, required: ['action'] };
  return { dataSchemas, branches: [...branches, rest] };
}

/**
 * Moves references within a schema, such as `#/$defs/a`, below `place`, because the schema becomes part of a larger
 * document. Omits the schema's `$id`, because references would be relative to it.
 */
function moveReferences({ $id = '', ...schema }: { $id?: string }, place: string): object {
  return JSON.parse(JSON.stringify(schema), (key, value) => {
    if (key !== '$ref' || typeof value !== 'string') return value;
    const reference = value === $id || value.startsWith(`${$id}#`) ? value.slice($id.length) : value;
    return /^(#(\/|$)|$)/.test(reference) ? place + reference.slice(1) : value;
  });
}

function hasRequiredFields({ required }: { required?: unknown }): boolean {
  return Array.isArray(required) && required.length > 0;
}

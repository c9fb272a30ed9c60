import { builtInActions } from '../../workers/actions.ts';
import type { SubmissionRules } from '../../workers/handlers-manifest.ts';

interface Document {
  components: { schemas: { Submission: object } };
}

/** Returns a copy of the OpenAPI document whose schema `Submission` describes the data of each action. */
export function describeActions<Own extends Document>(document: Own, { actions, rejectUnknown }: SubmissionRules): Own {
  const described = new Map<string, object>();
  for (const [name, { schema }] of actions) if (schema !== undefined) described.set(name, schema);
  if (described.size === 0 && !rejectUnknown) return document;
  const others = [...new Set([...builtInActions, ...actions.keys()])].filter((name) => !described.has(name));
  const otherAction = rejectUnknown ? { enum: others } : { type: 'string', not: { enum: [...described.keys()] } };
  const dataSchemas: Record<string, object> = {};
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
  const rest = { type: 'object', properties: { action: otherAction, data: { type: 'object' } }, required: ['action'] };
  // Examples are omitted, because they may not match the extended schema.
  const { examples: _, ...base } = document.components.schemas.Submission as { examples?: unknown };
  const Submission = { ...base, anyOf: others.length > 0 ? [...branches, rest] : branches };
  const schemas = { ...document.components.schemas, Submission, ...dataSchemas };
  return { ...document, components: { ...document.components, schemas } };
}

/** Moves local references such as `#/$defs/a` below `place`, because the schema becomes part of a larger document. */
function moveReferences(schema: object, place: string): object {
  return JSON.parse(JSON.stringify(schema), (key, value) =>
    key === '$ref' && /^#(\/|$)/.test(value) ? place + value.slice(1) : value,
  );
}

function hasRequiredFields({ required }: { required?: unknown }): boolean {
  return Array.isArray(required) && required.length > 0;
}

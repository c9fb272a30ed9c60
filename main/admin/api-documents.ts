import { readFile } from 'node:fs/promises';
import type { TickerSymbol } from '../../workers/shared/symbols.ts';
import { builtInActions } from '../../workers/tasks/actions.ts';
import type { SubmissionRules } from '../../workers/tasks/messages.ts';
import { jsonText } from '../http/json-reply.ts';

/** The build writes the documents as JSON, so that the program needs no YAML parser. */
const build = import.meta.filename.endsWith('.ts') ? '../../dist/' : '../../';
const folder = new URL(`${build}www/contracts/`, import.meta.url);

/** Returns functions that return the OpenAPI and the AsyncAPI document of this process as JSON text. */
export function apiDocuments(rules: SubmissionRules, symbols: readonly TickerSymbol[]) {
  let asyncApi: string | undefined;
  return {
    // Not kept, because a reload of the handlers module changes the rules.
    openApi: async () => jsonText(describeActions(await read('openapi'), rules)),
    asyncApi: async () => (asyncApi ??= jsonText(describePrices(await read('asyncapi'), symbols))),
  };
}

async function read(name: string): Promise<unknown> {
  return JSON.parse(await readFile(new URL(`${name}.json`, folder), 'utf8'));
}

/** Returns a copy of the AsyncAPI document that describes the prices of `symbols`. */
export function describePrices<Document>(document: Document, symbols: readonly TickerSymbol[]): Document {
  const copy = JSON.parse(JSON.stringify(document));
  const { ticker, numberedTicker, numberedWelcome, subscribe } = copy.components.messages;
  const decimals = Math.max(...symbols.map((each) => each.decimals));
  const names = symbols.map((each) => each.symbol);
  const prices = symbols.map((each) => ({ symbol: each.symbol, price: each.price, timestamp: 1_790_000_000 }));
  for (const { payload, examples } of [ticker, numberedTicker]) {
    const { data } = payload.properties;
    const { symbol, price } = data.items.properties;
    data.maxItems = symbols.length;
    symbol.enum = names;
    if (decimals !== 2) price.description = `with at most ${decimals} decimal places`;
    for (const example of examples) example.payload.data = prices;
  }
  ticker.payload.properties.data.minItems = symbols.length;
  const all = numberedWelcome.payload.properties.symbols;
  all.minItems = all.maxItems = symbols.length;
  all.items.enum = names;
  for (const example of [...numberedWelcome.examples, ...subscribe.examples]) example.payload.symbols = names;
  return copy;
}

/** Returns a copy of the OpenAPI document whose schema `Submission` names all actions and describes their data. */
export function describeActions<Document>(document: Document, { actions, rejectUnknown }: SubmissionRules): Document {
  if (actions.size === 0 && !rejectUnknown) return document;
  const copy = JSON.parse(JSON.stringify(document));
  const { schemas } = copy.components;
  const { Submission } = schemas;
  const { action } = Submission.properties;
  const known = [...new Set([...builtInActions, ...actions.keys()])];
  const names = known.map((name) => `\`${name}\``).join(', ');
  action.description = rejectUnknown ? names : `${names}, or any other string, which outputs \`processed\``;
  if (rejectUnknown) action.enum = known;
  // Examples are omitted, because they may not match the extended schema.
  delete Submission.examples;
  const described = [...actions].filter(([, { schema }]) => schema !== undefined);
  if (described.length === 0) return copy;
  Submission.anyOf = described.map(([name, { schema = {} }], index) => {
    const key = `Data${index + 1}_${name.replace(/[^\w.-]/g, '_')}`;
    const place = `#/components/schemas/${key}`;
    Object.assign(schemas, { [key]: moveReferences(schema, place) });
    const required = ['action', ...(hasRequiredFields(schema) ? ['data'] : [])];
    return { title: name, type: 'object', properties: { action: { const: name }, data: { $ref: place } }, required };
  });
  const other = { type: 'string', not: { enum: described.map(([name]) => name) } };
  const rest = { type: 'object', properties: { action: other, data: { type: 'object' } }, required: ['action'] };
  Submission.anyOf.push(rest);
  return copy;
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

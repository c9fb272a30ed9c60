import type { Handler } from './handlers-api.ts';
import type { ActionSettings } from './handlers-manifest.ts';
import { isObject } from './json-object.ts';
import { importUserModule } from './user-module.ts';

export interface LoadedHandler extends ActionSettings {
  handler: Handler;
}

const MAX_TIMEOUT_MS = 24 * 60 * 60 * 1000;
const MAX_ATTEMPTS = 1000;

/**
 * Imports a handlers module, without compiling its schemas. `name` is a path or package name.
 *
 * @throws {Error} with a one-line reason if the module cannot be imported or its default export is invalid
 */
export async function loadHandlers(name: string): Promise<ReadonlyMap<string, LoadedHandler>> {
  const exported = await importUserModule(name);
  if (!isObject(exported)) throw new Error('its default export must be an object that maps actions to handlers');
  return new Map(Object.entries(exported).map(([action, value]) => [action, readHandler(action, value)]));
}

function readHandler(action: string, value: unknown): LoadedHandler {
  const fail = (problem: string) => new Error(`action ${JSON.stringify(action)}: ${problem}`);
  if (typeof value === 'function') return { handler: value as Handler };
  if (!isObject(value)) throw fail('its handler must be a function');
  const { handler, schema, timeoutMs, maxAttempts, ...others } = value;
  if (typeof handler !== 'function') throw fail('its handler must be a function');
  const [unknown] = Object.keys(others);
  if (unknown !== undefined) throw fail(`unknown setting ${JSON.stringify(unknown)}`);
  if (schema !== undefined && !isObject(schema)) throw fail('its schema must be an object');
  if (!isWholeUpTo(timeoutMs, MAX_TIMEOUT_MS))
    throw fail(`timeoutMs must be a whole number from 1 to ${MAX_TIMEOUT_MS}`);
  if (!isWholeUpTo(maxAttempts, MAX_ATTEMPTS))
    throw fail(`maxAttempts must be a whole number from 1 to ${MAX_ATTEMPTS}`);
  return {
    handler: handler as Handler,
    ...(schema && { schema }),
    ...(timeoutMs && { timeoutMs }),
    ...(maxAttempts && { maxAttempts }),
  };
}

function isWholeUpTo(value: unknown, max: number): value is number | undefined {
  return value === undefined || (Number.isInteger(value) && (value as number) >= 1 && (value as number) <= max);
}

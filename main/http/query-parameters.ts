import type { ParameterizedContext } from 'koa';
import { nearestNames } from '../../workers/shared/nearest-names.ts';
import { HttpError } from './errors.ts';

/** Returns the parameters of a request's query. @throws {HttpError} if one is not among `names`, or is given twice */
export function queryParameters<Name extends string>(
  { query }: Pick<ParameterizedContext, 'query'>,
  ...names: readonly Name[]
): { readonly [Each in Name]?: string | undefined } {
  for (const [name, value] of Object.entries(query)) {
    if (!names.some((each) => each === name)) {
      const [nearest = names.join(', ')] = nearestNames(name, names);
      throw invalidParameter(name, `is unknown: did you mean ${nearest}?`);
    }
    if (Array.isArray(value)) throw invalidParameter(name, 'must be given once');
  }
  return query as { [Each in Name]?: string };
}

/** Returns whether the parameter `summary` asks for one. @throws {HttpError} if it is neither 0 nor 1 */
export function isSummary(summary = '0'): boolean {
  if (!['0', '1'].includes(summary)) throw invalidParameter('summary', 'must be 0 or 1');
  return summary === '1';
}

export function invalidParameter(parameter: string, detail: string): HttpError {
  return new HttpError('invalidQuery', { fields: { parameter, detail } });
}

import type { Middleware } from 'koa';
import { HttpError } from './errors.ts';

/** Last route of a path: responds 405, with the `allowed` methods in `Allow`. */
export function refuseOtherMethods(...allowed: string[]): Middleware {
  const headers = { Allow: allowed.join(', ') };
  return () => {
    throw new HttpError('methodNotAllowed', { headers });
  };
}

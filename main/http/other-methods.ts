import type { Middleware } from 'koa';
import { HttpError } from './errors.ts';

/** Ends the routes of a known path: every method but those `allowed` is refused with 405 and `Allow`. */
export function refuseOtherMethods(...allowed: string[]): Middleware {
  const headers = { Allow: allowed.join(', ') };
  return () => {
    throw new HttpError('methodNotAllowed', { headers });
  };
}

import { randomBytes } from 'node:crypto';

/** Returns a new value of `CALLBACK_SECRET`. */
export function newSecret(): string {
  return `whsec_${randomBytes(32).toString('base64')}`;
}

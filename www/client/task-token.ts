import type { Grant } from './credentials.ts';
import type { Abortable, HttpClient } from './http-client.ts';

export interface TaskTokenOptions extends Abortable {
  /** Seconds, up to a day. The default is an hour. */
  expiresIn?: number | undefined;
  /** Whether the token can also cancel. */
  cancel?: boolean | undefined;
}

/** Creates a token for the tasks of a path. */
export function createToken(http: HttpClient, path: string, options: TaskTokenOptions = {}): Promise<Grant> {
  const { signal, expiresIn: expires_in, cancel } = options;
  return http.request(`${path}/token`, { method: 'POST', body: { expires_in, cancel }, isRepeatable: true, signal });
}

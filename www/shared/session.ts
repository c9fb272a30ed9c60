/** Result of a sign-in, kept only in memory unless the user chooses otherwise; see `kept-session.ts`. */
export interface Session {
  token: string;
  userId: string;
  /** Time at which the token expires, in milliseconds since the epoch. */
  expiresAt: number;
}

/** Thrown if a sign-in fails. The message is shown to the user. */
export class SignInError extends Error {
  override name = 'SignInError';
}

/**
 * Exchanges an API key for a session.
 *
 * @throws {SignInError} if the service refuses the key (with the service's message) or is unreachable
 */
export async function signIn(apiKey: string): Promise<Session> {
  const response = await fetch('/auth/token', {
    method: 'POST',
    headers: { 'Content-Type': 'application/json' },
    body: JSON.stringify({ api_key: apiKey }),
    signal: AbortSignal.timeout(10_000),
  }).catch(() => {
    throw new SignInError('The service cannot be reached.');
  });
  const body = await response.json().catch(() => ({}));
  if (!response.ok) throw new SignInError(body.error ?? `The service answered with status ${response.status}.`);
  return { token: body.token, userId: body.user_id, expiresAt: Date.now() + body.expires_in * 1000 };
}

/** Revokes a token. If the service cannot be reached, the token stays valid until it expires. */
export function revoke(token: string): void {
  const headers = { Authorization: `Bearer ${token}` };
  void fetch('/auth/token', { method: 'DELETE', headers, keepalive: true }).catch(() => {});
}

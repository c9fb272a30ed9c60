export interface Session {
  token: string;
  userId: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

/** Message for the user about a failed sign-in. */
export class SignInError extends Error {
  override name = 'SignInError';
}

/** Exchanges an API key for a session. @throws {SignInError} if the service rejects the key or cannot be reached */
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

/** Revokes a token without waiting for the response. If the request fails, the token stays valid until it expires. */
export function revoke(token: string): void {
  const headers = { Authorization: `Bearer ${token}` };
  void fetch('/auth/token', { method: 'DELETE', headers, keepalive: true }).catch(() => {});
}

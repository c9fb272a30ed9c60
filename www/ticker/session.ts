/** What a sign-in yields. It lives in memory only. */
export interface Session {
  token: string;
  userId: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

/** Why a sign-in failed, in words for the user. */
export class SignInError extends Error {
  override name = 'SignInError';
}

/**
 * Exchanges an API key for a session.
 *
 * @throws {SignInError} when the service refuses the key (with its own words) or cannot be reached
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

/** Has the service forget a token; one that it cannot be told of expires by itself. */
export function revoke(token: string): void {
  const headers = { Authorization: `Bearer ${token}` };
  void fetch('/auth/token', { method: 'DELETE', headers, keepalive: true }).catch(() => {});
}

/**
 * What the service thinks of a token. A browser does not say why a WebSocket handshake failed, so the same endpoint is
 * asked without one: a good token is answered with 426 there, a bad one with 401.
 */
export async function checkToken(token: string): Promise<'good' | 'refused' | 'unreachable'> {
  try {
    const { status } = await fetch('/ws/ticker', {
      headers: { Authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(5_000),
    });
    return status === 401 ? 'refused' : 'good';
  } catch {
    return 'unreachable';
  }
}

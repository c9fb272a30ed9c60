import type { Grant } from '../client/credentials.ts';
import { HttpClient } from '../client/http-client.ts';

export interface Session {
  token: string;
  userId: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

/** Exchanges an API key for a session. @throws {ServiceError | UnreachableError} */
export async function signIn(apiKey: string): Promise<Session> {
  const request = { method: 'POST', body: { api_key: apiKey } } as const;
  const grant = await new HttpClient('/', {}, 0).request<Grant & { user_id: string }>('auth/token', request);
  return { token: grant.token, userId: grant.user_id, expiresAt: Date.now() + grant.expires_in * 1000 };
}

/** Revokes a token without waiting for the response. If the request fails, the token stays valid until it expires. */
export function revoke(token: string): void {
  const headers = { Authorization: `Bearer ${token}` };
  void fetch('/auth/token', { method: 'DELETE', headers, keepalive: true }).catch(() => {});
}

/**
 * Returns whether the service accepts a token, because browsers do not tell why a WebSocket handshake failed. The endpoint
 * of the handshake responds to a plain request with 426 if the token is valid, and otherwise with 401.
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

/**
 * Asks the service whether it accepts a token, because browsers do not reveal why a WebSocket handshake failed. The
 * WebSocket endpoint responds to a plain HTTP request with 426 if the token is valid, and with 401 if it is not.
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

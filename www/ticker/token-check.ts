/**
 * Asks the service whether a token is valid, because browsers do not reveal why a WebSocket handshake failed. The
 * WebSocket endpoint answers plain HTTP requests with 426 if the token is valid, and with 401 if not.
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

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

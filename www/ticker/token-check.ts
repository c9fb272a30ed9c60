/**
 * Whether the service accepts a token. A browser does not say why a WebSocket handshake failed. The same endpoint answers a
 * plain request with 426 if the token is valid, and else with 401.
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

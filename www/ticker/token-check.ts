/** Checks a token by an HTTP request, because browsers do not reveal why a WebSocket handshake failed. */
export async function checkToken(token: string): Promise<'valid' | 'refused' | 'unreachable'> {
  try {
    const { status } = await fetch('/ws/ticker', {
      headers: { Authorization: `Bearer ${token}` },
      signal: AbortSignal.timeout(5_000),
    });
    return status === 401 ? 'refused' : 'valid';
  } catch {
    return 'unreachable';
  }
}

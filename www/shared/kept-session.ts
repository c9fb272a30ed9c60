import type { Session } from './session.ts';

const KEY = 'session';

/** Stores the session for a reload of the browser tab. Does nothing if the browser blocks storage. */
export function keepSession(session: Session): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(session));
  } catch {
    // The browser blocks storage, so the user must sign in after a reload.
  }
}

export function discardKeptSession(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // The browser blocks storage, so no session is stored.
  }
}

/** Returns the stored session, or undefined if none is stored or its token has expired. */
export function keptSession(): Session | undefined {
  try {
    const session = JSON.parse(sessionStorage.getItem(KEY) ?? 'null');
    if (session !== null && session.expiresAt > Date.now()) return session;
  } catch {
    return undefined;
  }
  discardKeptSession();
  return undefined;
}

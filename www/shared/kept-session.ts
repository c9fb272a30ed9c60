import type { Session } from './session.ts';

/** Key in `sessionStorage`, which the browser keeps for one tab until the tab is closed. */
const KEY = 'session';

/** Keeps a session for the next load of the page in this tab. If the browser blocks storage, nothing is kept. */
export function keepSession(session: Session): void {
  try {
    sessionStorage.setItem(KEY, JSON.stringify(session));
  } catch {
    // The browser blocks storage. The user has to sign in again after a reload.
  }
}

/** Removes the session from the browser's storage. */
export function discardKeptSession(): void {
  try {
    sessionStorage.removeItem(KEY);
  } catch {
    // The browser blocks storage, so there is nothing to remove.
  }
}

/** Returns the kept session, or undefined if there is none or its token has expired. */
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

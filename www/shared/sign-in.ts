import type { Grant } from '../client/credentials.ts';
import { UnreachableError } from '../client/errors.ts';
import { HttpClient } from '../client/http-client.ts';
import { part } from './dom.ts';
import { readStored, store } from './stored.ts';

export interface Session {
  token: string;
  userId: string;
  /** Milliseconds since the epoch. */
  expiresAt: number;
}

const KEY = 'session';

/** Exchanges an API key for a session. @throws {ServiceError | UnreachableError} */
async function signIn(apiKey: string): Promise<Session> {
  const request = { method: 'POST', body: { api_key: apiKey } } as const;
  const grant = await new HttpClient('/', { giveUpMs: 0 }).request<Grant & { user_id: string }>('auth/token', request);
  return { token: grant.token, userId: grant.user_id, expiresAt: Date.now() + grant.expires_in * 1000 };
}

/** Revokes a token without waiting for the response. If the request fails, the token stays valid until it expires. */
export function revoke(token: string): void {
  const headers = { Authorization: `Bearer ${token}` };
  void fetch('/auth/token', { method: 'DELETE', headers, keepalive: true }).catch(() => {});
}

/** Stores the session for a reload of the browser tab, or discards the stored one. */
export function keepSession(session: Session | undefined): void {
  store('sessionStorage', KEY, session);
}

/** Returns the stored session, or undefined if none is stored or its token has expired. */
export function keptSession(): Session | undefined {
  const session = readStored('sessionStorage', KEY) as Session | null | undefined;
  return session && session.expiresAt > Date.now() ? session : undefined;
}

/**
 * Prepares the sign-in form of the page. Returns a function that discards the stored session and opens the form, with a
 * message that tells the user why the previous session has ended, if it has.
 */
export function signInForm(onSession: (session: Session) => void): (reason?: string) => void {
  const panel = part(document, 'sign-in', HTMLElement);
  const form = part(panel, 'sign-in-form', HTMLFormElement);
  const reasonText = part(panel, 'sign-in-reason', HTMLElement);
  const field = part(panel, 'api-key', HTMLInputElement);
  const reveal = part(panel, 'reveal', HTMLButtonElement);
  const keep = part(panel, 'keep', HTMLInputElement);
  const errorText = part(panel, 'sign-in-error', HTMLElement);
  const button = part(panel, 'sign-in-button', HTMLButtonElement);
  const show = (error: string) => {
    if (error === errorText.textContent) return;
    errorText.textContent = error;
    field.ariaInvalid = error === '' ? null : 'true';
  };
  const setRevealed = (revealed: boolean) => {
    field.type = revealed ? 'text' : 'password';
    reveal.ariaPressed = String(revealed);
  };
  const submit = async () => {
    const apiKey = field.value.trim();
    if (apiKey === '') {
      show('Enter the API key.');
      field.focus();
      return;
    }
    show('');
    button.disabled = true;
    try {
      const session = await signIn(apiKey);
      keepSession(keep.checked ? session : undefined);
      form.reset();
      setRevealed(false);
      panel.hidden = true;
      onSession(session);
    } catch (error) {
      show(error instanceof UnreachableError ? 'The service cannot be reached.' : (error as Error).message);
      field.select();
    } finally {
      button.disabled = false;
    }
  };
  form.addEventListener('submit', (event) => {
    event.preventDefault();
    void submit();
  });
  field.addEventListener('input', () => show(''));
  reveal.addEventListener('click', () => setRevealed(field.type === 'password'));
  return (reason = '') => {
    keepSession(undefined);
    reasonText.textContent = reason;
    reasonText.hidden = reason === '';
    panel.hidden = false;
    field.focus();
  };
}

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

export class SignInForm {
  readonly #panel = part(document, 'sign-in', HTMLElement);
  readonly #form = part(this.#panel, 'sign-in-form', HTMLFormElement);
  readonly #reason = part(this.#panel, 'sign-in-reason', HTMLElement);
  readonly #field = part(this.#panel, 'api-key', HTMLInputElement);
  readonly #reveal = part(this.#panel, 'reveal', HTMLButtonElement);
  readonly #keep = part(this.#panel, 'keep', HTMLInputElement);
  readonly #error = part(this.#panel, 'sign-in-error', HTMLElement);
  readonly #button = part(this.#panel, 'sign-in-button', HTMLButtonElement);

  constructor(onSession: (session: Session) => void) {
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#submit(onSession);
    });
    this.#field.addEventListener('input', () => this.#show(''));
    this.#reveal.addEventListener('click', () => this.#setRevealed(this.#field.type === 'password'));
  }

  /** Discards the stored session. @param reason message that tells the user why the previous session has ended, if it has */
  open(reason = ''): void {
    keepSession(undefined);
    this.#reason.textContent = reason;
    this.#reason.hidden = reason === '';
    this.#panel.hidden = false;
    this.#field.focus();
  }

  async #submit(onSession: (session: Session) => void): Promise<void> {
    const apiKey = this.#field.value.trim();
    if (apiKey === '') {
      this.#show('Enter the API key.');
      this.#field.focus();
      return;
    }
    this.#show('');
    this.#button.disabled = true;
    try {
      const session = await signIn(apiKey);
      keepSession(this.#keep.checked ? session : undefined);
      this.#form.reset();
      this.#setRevealed(false);
      this.#panel.hidden = true;
      onSession(session);
    } catch (error) {
      this.#show(error instanceof UnreachableError ? 'The service cannot be reached.' : (error as Error).message);
      this.#field.select();
    } finally {
      this.#button.disabled = false;
    }
  }

  #show(error: string): void {
    if (error === this.#error.textContent) return;
    this.#error.textContent = error;
    this.#field.ariaInvalid = error === '' ? null : 'true';
  }

  #setRevealed(revealed: boolean): void {
    this.#field.type = revealed ? 'text' : 'password';
    this.#reveal.ariaPressed = String(revealed);
  }
}

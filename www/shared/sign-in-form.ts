import { UnreachableError } from '../client/errors.ts';
import { part } from './dom.ts';
import { discardKeptSession, keepSession } from './kept-session.ts';
import { type Session, signIn } from './session.ts';

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

  /** @param reason message that tells the user why the previous session has ended */
  open(reason?: string): void {
    this.#reason.textContent = reason ?? '';
    this.#reason.hidden = reason === undefined;
    this.#panel.hidden = false;
    this.#field.focus();
  }

  close(): void {
    this.#panel.hidden = true;
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
      if (this.#keep.checked) keepSession(session);
      else discardKeptSession();
      this.#form.reset();
      this.#setRevealed(false);
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
    if (error === '') this.#field.removeAttribute('aria-invalid');
    else this.#field.setAttribute('aria-invalid', 'true');
  }

  #setRevealed(revealed: boolean): void {
    this.#field.type = revealed ? 'text' : 'password';
    this.#reveal.setAttribute('aria-pressed', String(revealed));
  }
}

import { part } from '../shared/dom.ts';
import { discardKeptSession, keptSession } from '../shared/kept-session.ts';
import { revoke, type Session } from '../shared/session.ts';
import { SignInForm } from '../shared/sign-in-form.ts';
import { useToken } from './service.ts';

const SESSION_ENDED = 'Your session has ended. Enter the API key again.';

/** Sign-in form and sign-out button, which appear only if the service requires a token. */
export class Access {
  readonly #desk = part(document, 'desk', HTMLElement);
  readonly #signOut = part(document, 'sign-out', HTMLButtonElement);
  readonly #form: SignInForm;
  #session: Session | undefined;
  #asking = false;

  constructor(onSignIn: (userId: string) => void) {
    this.#form = new SignInForm((session) => {
      this.#start(session);
      onSignIn(session.userId);
    });
    const kept = keptSession();
    if (kept !== undefined) this.#start(kept);
    this.#signOut.addEventListener('click', () => {
      discardKeptSession();
      if (this.#session !== undefined) revoke(this.#session.token);
      // Reloading the page removes all data of the user.
      location.reload();
    });
  }

  /** Id of the signed-in user, or an empty string. */
  get userId(): string {
    return this.#session?.userId ?? '';
  }

  ask(): void {
    if (this.#asking) return;
    const reason = this.#session === undefined ? undefined : SESSION_ENDED;
    this.#session = undefined;
    discardKeptSession();
    useToken(undefined);
    this.#show(true);
    this.#form.open(reason);
  }

  #start(session: Session): void {
    this.#session = session;
    useToken(session.token);
    part(this.#signOut, 'user', HTMLElement).textContent = session.userId;
    this.#form.close();
    this.#show(false);
  }

  #show(asking: boolean): void {
    this.#asking = asking;
    this.#desk.hidden = asking;
    this.#signOut.hidden = asking;
  }
}

import { signal } from '@preact/signals';
import { keepSession, keptSession, revoke, type Session, SignInForm } from '../shared/sign-in.ts';
import { useToken } from './service.ts';

const SESSION_ENDED = 'Your session has ended. Enter the API key again.';

/** Session of the signed-in user. Undefined if the service requires no token, too. */
export const session = signal<Session>();
export const isAsking = signal(false);

/** Sign-in form, which appears only if the service requires a token. */
export class Access {
  readonly #form: SignInForm;

  constructor(onSignIn: (userId: string) => void) {
    this.#form = new SignInForm((started) => {
      this.#start(started);
      onSignIn(started.userId);
    });
    const kept = keptSession();
    if (kept !== undefined) this.#start(kept);
  }

  /** Id of the signed-in user, or an empty string. */
  get userId(): string {
    return session.peek()?.userId ?? '';
  }

  ask(): void {
    if (isAsking.peek()) return;
    const reason = session.peek() === undefined ? undefined : SESSION_ENDED;
    session.value = undefined;
    keepSession(undefined);
    useToken(undefined);
    isAsking.value = true;
    this.#form.open(reason);
  }

  #start(started: Session): void {
    session.value = started;
    useToken(started.token);
    this.#form.close();
    isAsking.value = false;
  }
}

export function signOut(): void {
  keepSession(undefined);
  const { value } = session;
  if (value !== undefined) revoke(value.token);
  // Reloading the page removes all data of the user.
  location.reload();
}

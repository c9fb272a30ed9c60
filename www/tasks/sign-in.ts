import { computed } from '@preact/signals';
import { keepSession, keptSession, revoke, type Session, signInForm } from '../shared/sign-in.ts';
import { link, linkState, model } from './board.ts';
import { session, useSession } from './service.ts';

const SESSION_ENDED = 'Your session has ended. Enter the API key again.';

/** Connects to the service. A sign-in form appears only if the service requires a token. */
export function connect(): void {
  const begin = (started: Session | undefined) => {
    useSession(started);
    link.start(started?.userId ?? '');
  };
  const openForm = signInForm((started) => {
    begin(started);
    model.reload();
  });
  begin(keptSession());
  computed(() => linkState.value.kind).subscribe((kind) => {
    if (kind !== 'signed-out') return;
    openForm(session.peek() && SESSION_ENDED);
    useSession(undefined);
  });
}

export function signOut(): void {
  keepSession(undefined);
  const { value } = session;
  if (value !== undefined) revoke(value.token);
  // Reloading the page removes all data of the user.
  location.reload();
}

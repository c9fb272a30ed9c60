import { ServiceError } from '../client/errors.ts';
import { formatAge } from './amounts.ts';
import { link, linkState, model, situation } from './board.ts';
import { now } from './clock.ts';
import { PauseQueue } from './health-strip.tsx';
import { HelpButton } from './keys.tsx';
import { Button } from './parts.tsx';
import type { LinkState } from './service-link.ts';
import { session, signOut } from './sign-in.ts';
import { openForm } from './submit-form.tsx';

/** State of the connection and of the queue, and the buttons of the page. */
export function Masthead() {
  const { kind, text } = describeConnection(linkState.value, model.problem.value);
  const { severity, problems } = situation.value;
  const held = problems.find(({ kind }) => kind === 'stalled' || kind === 'paused' || kind === 'full');
  const queue = severity === 'unknown' ? '' : (held?.kind ?? 'running');
  const isRetriable = linkState.value.kind === 'offline' || linkState.value.kind === 'failing';
  return (
    <>
      <div class="pill" data-part="connection" data-state={kind} data-severity={severity}>
        <span class="pill-mark" aria-hidden="true" />
        <span data-part="connection-text">{text}</span>
        <span class="pill-fact quiet" data-part="last-event">
          <LastEvent />
        </span>
        <span class="pill-fact quiet" data-part="queue-state">
          {queue === '' ? '' : `queue ${queue}`}
        </span>
      </div>
      {isRetriable && (
        <Button data-part="retry" onClick={() => link.now()}>
          Retry
        </Button>
      )}
      <PauseQueue />
      {/* biome-ignore lint/a11y/useValidAnchor: the link leads to the form, and also moves the focus there */}
      <a
        class="button to-form push"
        data-part="to-form"
        href="#submit-heading"
        onClick={(event) => {
          event.preventDefault();
          openForm();
        }}
      >
        Queue a task
      </a>
      <HelpButton />
      {session.value !== undefined && (
        <Button class="button button-plain" data-part="sign-out" onClick={signOut}>
          Sign out <span class="quiet">{session.value.userId}</span>
        </Button>
      )}
    </>
  );
}

function LastEvent() {
  const { kind, isStreaming, lastEventAt } = linkState.value;
  if (kind === 'connecting' || kind === 'signed-out') return null;
  if (kind === 'live' && !isStreaming) return <>no event stream</>;
  if (lastEventAt === undefined) return <>no event yet</>;
  return <>{`last event ${formatAge(now.value - lastEventAt)} ago`}</>;
}

/** @param problem error of the last request for the task list */
function describeConnection(state: LinkState, problem: Error | undefined): { kind: LinkState['kind']; text: string } {
  const error = state.kind === 'live' && problem instanceof ServiceError ? problem.message : state.error;
  if (error !== undefined) return { kind: 'failing', text: `Service answers: ${error}` };
  const words = {
    connecting: 'Connecting',
    live: 'Live',
    offline: 'Offline',
    failing: 'Failing',
    'signed-out': 'Signed out',
  };
  return { kind: state.kind, text: words[state.kind] };
}

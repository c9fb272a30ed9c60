import { useRef } from 'preact/hooks';
import { ServiceError } from '../client/errors.ts';
import { formatClock } from './amounts.ts';
import { health, link, linkState, model } from './board.ts';
import { now } from './clock.ts';
import { PauseQueue } from './health-strip.tsx';
import { HelpButton } from './keys.tsx';
import { Button } from './parts.tsx';
import type { LinkState } from './service-link.ts';
import { session, signOut } from './sign-in.ts';

/** State of the connection and of the queue, and the buttons of the page. */
export function Masthead({ toForm }: { toForm(): void }) {
  const { kind, text } = describeConnection(linkState.value, model.problem.value);
  const queue = describeQueue();
  const pausedAtMs = queue === 'paused' ? health.value?.pausedAtMs : undefined;
  const announced = useRef({ kind: '', text: '' });
  if (announced.current.kind !== kind) {
    announced.current = { kind, text: queue === '' ? text : `${text}, queue ${queue}` };
  }
  const isRetriable = linkState.value.kind === 'offline' || linkState.value.kind === 'failing';
  return (
    <>
      <div class="pill" data-part="connection" data-state={kind} data-queue={queue}>
        <span class="pill-mark" aria-hidden="true" />
        <span data-part="connection-text">{text}</span>
        <span class="pill-fact" data-part="last-event">
          <LastEvent />
        </span>
        <span class="pill-fact" data-part="queue-state">
          {queue === '' ? '' : `queue ${queue}`}
          {pausedAtMs !== undefined && ` since ${formatClock(pausedAtMs, false)}`}
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
        class="button to-form"
        data-part="to-form"
        href="#submit-heading"
        onClick={(event) => {
          event.preventDefault();
          toForm();
        }}
      >
        Queue a task
      </a>
      <HelpButton />
      {session.value !== undefined && (
        <button type="button" class="button button-plain" data-part="sign-out" onClick={signOut}>
          Sign out <span class="quiet">{session.value.userId}</span>
        </button>
      )}
      <p class="visually-hidden" role="status" data-part="connection-status">
        {announced.current.text}
      </p>
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

/** Returns the state of the queue in a word, or an empty string if it is unknown. */
function describeQueue(): string {
  const { value } = health;
  if (linkState.value.kind !== 'live' || value === undefined) return '';
  if (value.stalled !== null) return 'stalled';
  if (value.paused) return 'paused';
  return value.full ? 'full' : 'running';
}

/** Formats an age as `under 1 s`, `12 s`, `3 min` or `2 h`. */
function formatAge(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 1) return 'under 1 s';
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

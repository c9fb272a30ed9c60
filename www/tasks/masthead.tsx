import { ServiceError } from '../client/errors.ts';
import { keepSession, revoke } from '../shared/sign-in.ts';
import { addressOf, PAGES } from './address.ts';
import { history, link, linkState, model, situation } from './board.ts';
import { STATES, type State } from './board-task.ts';
import { PauseQueue } from './health-strip.tsx';
import { openHelp } from './keys.tsx';
import { followLink, view } from './navigation.ts';
import { Button, Mark, now, titleOf } from './parts.tsx';
import { session } from './service.ts';
import type { LinkState } from './service-link.ts';
import { openForm } from './submit-form.tsx';
import { formatAge, formatCount, formatMinute } from './texts.ts';

const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

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
      <div class="contents screen-only">
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
        <Button
          class="button button-plain button-icon"
          data-part="help-button"
          aria-label="Keys"
          aria-haspopup="dialog"
          onClick={openHelp}
        >
          ?
        </Button>
        {session.value !== undefined && (
          <Button class="button button-plain" data-part="sign-out" onClick={signOut}>
            Sign out <span class="quiet">{session.value.userId}</span>
          </Button>
        )}
      </div>
    </>
  );
}

function signOut(): void {
  keepSession(undefined);
  const { value } = session;
  if (value !== undefined) revoke(value.token);
  // Reloading the page removes all data of the user.
  location.reload();
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
  return { kind: state.kind, text: titleOf(state.kind.replace('-', ' ')) };
}

export function Tabs() {
  const { page, state: shown } = view.value;
  return (
    <nav class="tabs" data-part="tabs" aria-label="Tasks by state">
      {STATES.map((state) => (
        <a
          key={state}
          class="tab"
          href={addressOf({ state })}
          data-state={state}
          aria-current={page === 'tasks' && state === shown ? 'page' : undefined}
          onClick={followLink}
        >
          <Mark state={state} />
          <span class="tab-name">{titleOf(state)}</span>{' '}
          <span class="tab-count keep" data-part={`count-${state}`}>
            {countText(state)}
          </span>
        </a>
      ))}
    </nav>
  );
}

export function Pages() {
  return PAGES.map((page) => (
    <a
      key={page}
      class="page"
      href={addressOf({ page })}
      data-page={page}
      aria-current={page === view.value.page ? 'page' : undefined}
      onClick={followLink}
    >
      {titleOf(page)}
    </a>
  ));
}

/** Returns the number of tasks in a state. Where completed tasks of before the service's start are listed, its start follows. */
function countText(state: State): string {
  model.version.value;
  const count = model.count(state);
  if (count === undefined) return '';
  const text = count < 100_000 ? formatCount(count) : compact.format(count);
  const start = history.value.seconds.starts.at(-1);
  const isOlderListed = state === 'completed' && model.tasks(state).length > count;
  return isOlderListed && start !== undefined ? `${text} since ${formatMinute(start * 1_000)}` : text;
}

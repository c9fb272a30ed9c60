import { signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { addressOf } from './address.ts';
import { formatSpan } from './amounts.ts';
import { model } from './board.ts';
import { isUnfinished } from './board-task.ts';
import { now } from './clock.ts';
import { readOutput } from './json-text.ts';
import { changeView, opensElsewhere } from './navigation.ts';
import { Mark, Progress, SmallButton } from './parts.tsx';
import { redrive } from './selection.ts';
import type { Submission } from './service.ts';
import { limitText, type TaskDetail } from './task-detail.ts';
import { say } from './undoable.tsx';
import { visibleText } from './visible-text.ts';
import { WatchedTask } from './watched-task.ts';

/** Maximum number of tasks in the list of tasks queued from this page. The oldest task is removed first. */
const LIMIT = 8;
const MAX_ANNOUNCEMENT = 200;
const MAX_OUTPUT = 1_000;

interface OwnTask {
  id: string;
  submission: Submission;
}

const tasks = signal<readonly OwnTask[]>([]);
const said = signal('');

/** Adds a task that was queued from this page. */
export function addOwnTask(id: string, submission: Submission): void {
  tasks.value = [{ id, submission }, ...tasks.value].slice(0, LIMIT);
  said.value = `Queued ${visibleText(submission.action)}`;
}

/** List of the tasks queued from this page. */
export function OwnTasks({ onEdit }: { onEdit(submission: Submission): void }) {
  if (tasks.value.length === 0) return null;
  return (
    <section class="panel stack" aria-labelledby="own-heading">
      <h2 id="own-heading">Queued from this page</h2>
      <ol data-part="own-list">
        {tasks.value.map((task) => (
          <OwnTaskItem key={task.id} task={task} onEdit={onEdit} />
        ))}
      </ol>
      <p class="visually-hidden" role="status" data-part="own-status">
        {said}
      </p>
    </section>
  );
}

function OwnTaskItem({ task: { id, submission }, onEdit }: { task: OwnTask; onEdit(submission: Submission): void }) {
  const watched = useMemo(() => new WatchedTask(id, model), []);
  useEffect(() => () => watched.close(), []);
  const [queuedAt, setQueuedAt] = useState(() => performance.now());
  const item = useRef<HTMLLIElement>(null);
  const earlier = useRef('queued');
  const read = watched.detail.value;
  const detail = read.status === 'loading' ? { ...read, status: 'queued' } : read;
  const { status, permanent } = detail;
  const isOpen = isUnfinished(status);
  const name = visibleText(submission.action);
  const output = outputOf(detail);
  const hadFocus = item.current?.contains(document.activeElement) ?? false;
  useLayoutEffect(() => {
    // If the button with the focus is gone, the item gets the focus.
    if (hadFocus && document.activeElement === document.body) item.current?.focus();
    const before = earlier.current;
    earlier.current = status;
    if (before === status) return;
    if (isUnfinished(before) && !isOpen) {
      const text = `${SAID[status] ?? status} ${name}${output === '' ? '' : `: ${visibleText(output)}`}`;
      said.value = text.slice(0, MAX_ANNOUNCEMENT);
    } else if (!isUnfinished(before) && isOpen) {
      setQueuedAt(performance.now());
    }
  }, [status]);
  const cancel = async () => {
    try {
      if (!(await watched.cancel())) said.value = `Cancelling ${name}`;
    } catch (cause) {
      say(`Cannot cancel ${name}: ${(cause as Error).message}`);
    }
  };
  return (
    <li class="own-task" tabIndex={-1} data-id={id} data-state={status} ref={item}>
      <Mark state={status} />
      <bdi class="strong">
        <a
          class="bare"
          href={addressOf({ task: id })}
          onClick={(event) => {
            if (opensElsewhere(event)) return;
            event.preventDefault();
            changeView({ task: id });
          }}
        >
          {name}
        </a>
      </bdi>{' '}
      <bdi class={`own-output clamp ${status === 'completed' ? '' : 'toned'}`}>{visibleText(shorten(output))}</bdi>{' '}
      <span class="own-state small">
        <span class="toned" data-part="state">
          {watched.isCancelling && isOpen ? 'cancelling' : <StateWord detail={detail} />}
        </span>{' '}
        <span class="quiet">
          {isOpen && status !== 'retrying' && <Elapsed since={queuedAt} />}
          {status === 'completed' && ranText(detail)}
        </span>
      </span>
      {isOpen && (
        <SmallButton class="own-cancel" aria-disabled={watched.isCancelling} onClick={cancel}>
          Cancel
        </SmallButton>
      )}
      <Progress progress={status === 'running' ? detail.progress : undefined} label={`Progress of ${name}`} />
      {status === 'failed' && (
        <div class="row">
          {!permanent && <SmallButton onClick={() => redrive({ id }, () => watched.read())}>Try again</SmallButton>}
          <SmallButton onClick={() => onEdit(submission)}>Edit and resubmit</SmallButton>
        </div>
      )}
    </li>
  );
}

function Elapsed({ since }: { since: number }) {
  now.value;
  return <>{formatSpan(performance.now() - since)}</>;
}

/** Says how long the handler of a completed task ran, and how often if more than once. */
function ranText({ ran_ms, attempts = 1 }: TaskDetail): string {
  if (ran_ms === undefined) return '';
  return `after ${formatSpan(ran_ms)}${attempts > 1 ? ` in ${attempts} attempts` : ''}`;
}

/** State of a task in words, with a countdown while it waits for a time. */
function StateWord({ detail }: { detail: TaskDetail }) {
  const { status, attempt = 1, run_at_ms, next_attempt_at_ms } = detail;
  if (status === 'unknown') return <>unknown</>;
  if (status === 'running' && attempt > 1) return <>{`running, attempt ${attempt}`}</>;
  const dueAtMs = status === 'scheduled' ? run_at_ms : status === 'retrying' ? next_attempt_at_ms : undefined;
  if (dueAtMs === undefined) return <>{status}</>;
  const word = status === 'scheduled' ? 'due' : 'again';
  const delayMs = dueAtMs - now.value;
  return <>{delayMs > 0 ? `${word} in ${formatSpan(delayMs)}` : `${word} now`}</>;
}

const SAID: Readonly<Record<string, string>> = {
  completed: 'Completed',
  failed: 'Failed',
  cancelled: 'Cancelled',
  unknown: 'Lost track of',
};

function outputOf({ status, result, reason = '', limit }: TaskDetail): string {
  if (status === 'completed') return readOutput(result ?? null);
  if (status === 'failed' || status === 'retrying') return reason;
  if (status === 'limited') return limit === undefined ? '' : limitText(limit);
  return status === 'unknown' ? 'The service no longer knows this task.' : '';
}

function shorten(text: string): string {
  return text.length > MAX_OUTPUT ? `${text.slice(0, MAX_OUTPUT)}…` : text;
}

import { signal } from '@preact/signals';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';
import { addressOf } from './address.ts';
import { isUnfinished } from './board-task.ts';
import { redrive, say } from './deeds.tsx';
import { followLink, view } from './navigation.ts';
import { Mark, now, Progress, SmallButton, titleOf } from './parts.tsx';
import { type OwnTask, openForm, ownTasks } from './submit-form.tsx';
import { limitText, type TaskDetail } from './task-detail.ts';
import { formatDue, formatSpan, outputText, visibleText } from './texts.ts';
import { useTask } from './watched-task.ts';

const MAX_ANNOUNCEMENT = 200;
const MAX_OUTPUT = 1_000;

const said = signal('');

/** List of the tasks queued from this page. */
export function OwnTasks() {
  if (ownTasks.value.length === 0) return null;
  return (
    <section class="panel stack" aria-labelledby="own-heading">
      <h2 id="own-heading">Queued from this page</h2>
      <ol data-part="own-list">
        {ownTasks.value.map((task) => (
          <OwnTaskItem key={task.id} {...task} />
        ))}
      </ol>
      <p class="visually-hidden" role="status" data-part="own-status">
        {said}
      </p>
    </section>
  );
}

function OwnTaskItem({ id, submission }: OwnTask) {
  const watched = useTask(id);
  const [queuedAt, setQueuedAt] = useState(() => performance.now());
  const item = useRef<HTMLLIElement>(null);
  const earlier = useRef('');
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
    if (before === '') said.value = `Queued ${name}`;
    else if (isUnfinished(before) && !isOpen) {
      const text = `${status === 'unknown' ? 'Lost track of' : titleOf(status)} ${name}${output === '' ? '' : `: ${visibleText(output)}`}`;
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
        <a class="bare" href={addressOf({ ...view.value, task: id })} onClick={followLink}>
          {name}
        </a>
      </bdi>{' '}
      <bdi class="own-output">
        {visibleText(output.length > MAX_OUTPUT ? `${output.slice(0, MAX_OUTPUT)}…` : output)}
      </bdi>{' '}
      <span class="own-state small">
        <span data-part="state">
          {watched.isCancelling.value && isOpen ? 'cancelling' : <StateWord detail={detail} />}
        </span>{' '}
        <span class="quiet">
          {isOpen && status !== 'retrying' && <Elapsed since={queuedAt} />}
          {status === 'completed' && ranText(detail)}
        </span>
      </span>
      {isOpen && (
        <SmallButton class="own-cancel" aria-disabled={watched.isCancelling.value} onClick={cancel}>
          Cancel
        </SmallButton>
      )}
      <Progress progress={status === 'running' ? detail.progress : undefined} label={`Progress of ${name}`} />
      {status === 'failed' && (
        <div class="row">
          {!permanent && <SmallButton onClick={() => redrive({ id })}>Try again</SmallButton>}
          <SmallButton onClick={() => openForm(submission)}>Edit and resubmit</SmallButton>
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
  return <>{`${status === 'scheduled' ? 'due' : 'again'} ${formatDue(dueAtMs, now.value)}`}</>;
}

function outputOf({ status, result, reason = '', limit }: TaskDetail): string {
  if (status === 'completed') return outputText(result ?? null);
  if (status === 'failed' || status === 'retrying') return reason;
  if (status === 'limited') return limit === undefined ? '' : limitText(limit);
  return status === 'unknown' ? 'The service no longer knows this task.' : '';
}

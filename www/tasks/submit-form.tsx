import { computed, effect, signal } from '@preact/signals';
import { useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import { ServiceError, UnreachableError } from '../client/errors.ts';
import type { ActionList } from '../client/task-client.ts';
import { addressOf } from './address.ts';
import { link, linkState, situation } from './board.ts';
import { isUnfinished } from './board-task.ts';
import { redrive, say } from './bulk-changes.tsx';
import { dataFields, fieldAt } from './data-schema.ts';
import { type Draft, draftOf, fieldsOf, formOf, parseForm } from './draft.ts';
import { type Problem, placeError } from './fields.ts';
import { FormFields, focusField } from './form-fields.tsx';
import { differences, locate } from './json-text.ts';
import { followLink, openAddress, view } from './navigation.ts';
import { CodeBlock, Live, Mark, now, Progress, RadioGroup, SmallButton, titleOf } from './parts.tsx';
import { client, curlCommand, isSignedOut, repeated, type Submission } from './service.ts';
import { limitText, type TaskDetail } from './task-detail.ts';
import { formatDue, formatSpan, outputText, visibleText } from './texts.ts';
import { useTask } from './watched-task.ts';

interface FormProblem extends Problem {
  /** Time at which the request may be repeated, if the service has named one. */
  retryAt?: number | undefined;
  isUnreachable?: boolean;
}

interface OwnTask {
  id: string;
  submission: Submission;
}

const MAX_DIFFERENCES = 8;
/** Maximum number of tasks in the list of tasks queued from this page. The oldest task is removed first. */
const MAX_OWN_TASKS = 8;
const MAX_ANNOUNCEMENT = 200;
const MAX_OUTPUT = 1_000;

const ownTasks = signal<readonly OwnTask[]>([]);
/** Announcement for screen readers of what becomes of a queued task. */
const announced = signal('');

const EMPTY: Draft = { kind: 'uppercase', text: 'Hello, queue', numbers: '1, 2, 3.5', action: '', data: {} };

// Kept over a reload, as browsers do with fields that are in the HTML file.
const draft = signal<Draft>({ ...EMPTY, ...history.state?.draft });
addEventListener('beforeunload', () => history.replaceState({ draft: draft.value }, ''));

const offered = repeated<ActionList>(0, () => client.actions(), { actions: [], unknown_actions: 'process' });
const form = computed(() => formOf(draft.value, offered.answer.value));
/** Earlier task that the form was filled with, until a task is queued. */
const original = signal<Submission>();
const problem = signal<FormProblem>();
const isSending = signal(false);
const focusRequests = signal(0);
const isLive = computed(() => linkState.value.kind === 'live');
const waitSeconds = computed(() => Math.ceil(Math.max((problem.value?.retryAt ?? 0) - now.value, 0) / 1_000));

isLive.subscribe((isConnected) => {
  if (!isConnected) return;
  if (problem.peek()?.isUnreachable) problem.value = undefined;
  // After a failure, the next connection repeats the request.
  void offered.read();
});
effect(() => {
  const isFull = situation.value.problems.some(({ kind }) => kind === 'full');
  const isOver = problem.value?.retryAt !== undefined && waitSeconds.value === 0 && isLive.value && !isFull;
  if (isOver) problem.value = undefined;
});

/** Whether the user has opened or changed the form. */
const isWanted = signal(false);
const wasCritical = signal(false);
situation.subscribe(({ severity }) => {
  wasCritical.value ||= severity === 'critical';
});
/** Whether the form is hidden. A critical problem hides it, unless the user wants it. */
export const isFolded = computed(() => wasCritical.value && !isWanted.value);

/** Shows and focuses the form. @param submission earlier task to fill in, so that the user can change and queue it */
export function openForm(submission?: Submission): void {
  isWanted.value = true;
  if (view.value.page !== 'tasks') openAddress('/');
  if (submission !== undefined) change(draftOf(submission, form.value));
  original.value = submission;
  focusRequests.value += 1;
}

export function SubmitForm() {
  const element = useRef<HTMLFormElement>(null);
  const { kinds, kind, choice, data } = form.value;
  useLayoutEffect(() => {
    if (focusRequests.value === 0) return;
    element.current?.closest('section')?.scrollIntoView({ block: 'nearest' });
    element.current?.querySelector<HTMLElement>('.field :is(textarea, input, select)')?.focus({ preventScroll: true });
  }, [focusRequests.value]);
  const isBlocked = isSending.value || waitSeconds.value > 0;
  const onText = (name: string, text: string) =>
    change(name === 'json' ? { data: { ...data, [choice]: text } } : { [name]: text });
  const task = taskOf(form.value);
  return (
    <section class="panel stack" aria-labelledby="submit-heading">
      <h2 id="submit-heading">Queue a task</h2>
      <form
        data-part="submit-form"
        noValidate
        ref={element}
        onSubmit={(event) => {
          event.preventDefault();
          if (!isBlocked) void submit(event.currentTarget);
        }}
        onKeyDown={({ key, ctrlKey, metaKey, currentTarget }) => {
          if (key === 'Enter' && (ctrlKey || metaKey)) currentTarget.requestSubmit();
        }}
      >
        <RadioGroup
          legend="Action"
          name="kind"
          options={kinds.map((each) => [each, each] as const)}
          chosen={kind}
          onChoose={(kind) => change({ kind })}
        />
        <FormFields fields={fieldsOf(form.value)} texts={form.value} problem={problem.value} onText={onText} />
        {kind === 'other' && <DataHelp schema={form.value.schema} />}
        {task && original.value && (
          <p class="quiet small" data-part="difference">
            {differenceText(differences(original.value, task))}
          </p>
        )}
        <p class="field-error" role="alert" data-part="submit-error">
          {problem.value?.field === undefined && problem.value && describe(problem.value)}
        </p>
        <button type="submit" class="button button-primary" aria-disabled={isBlocked}>
          Queue task
        </button>
      </form>
      {task && (
        <div class="request stack tight">
          <CodeBlock part="curl" heading={<h3>The same with curl</h3>} text={curlCommand(task)} />
        </div>
      )}
    </section>
  );
}

function differenceText(changed: readonly string[]): string {
  if (changed.length === 0) return 'The same as the original task.';
  const more = changed.length > MAX_DIFFERENCES ? ` and ${changed.length - MAX_DIFFERENCES} more` : '';
  return `Differs from the original task in ${visibleText(changed.slice(0, MAX_DIFFERENCES).join(', '))}${more}.`;
}

/** Fields that a JSON Schema describes. The one with the problem is marked. */
function DataHelp({ schema }: { schema: object | undefined }) {
  const fields = useMemo(() => dataFields(schema ?? {}), [schema]);
  const { path } = problem.value ?? {};
  const wrong = path === undefined ? undefined : fieldAt(fields, path);
  if (fields.length === 0) return null;
  return (
    <div class="data-help stack tight">
      <h3 id="data-help-heading">Fields</h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: focusable for keyboard scrolling */}
      <ul class="stack" tabIndex={0} aria-labelledby="data-help-heading">
        {fields.map((field) => (
          <li key={field.keys.join('/')} class="data-field small" data-wrong={field === wrong ? '' : undefined}>
            <p>
              <code>{field.name}</code> <span class="quiet">{field.kind}</span>{' '}
              {field.required && <strong>required</strong>}
            </p>
            <p class="quiet small">{field.about}</p>
          </li>
        ))}
      </ul>
    </div>
  );
}

function change(fields: Partial<Draft>): void {
  isWanted.value = true;
  draft.value = { ...draft.value, ...fields };
  if (waitSeconds.value === 0) problem.value = undefined;
}

async function submit(element: HTMLFormElement): Promise<void> {
  isWanted.value = true;
  isSending.value = true;
  problem.value = undefined;
  try {
    const submission = parseForm(form.value);
    const { id } = await client.submit(submission.action, submission.data);
    ownTasks.value = [{ id, submission }, ...ownTasks.value].slice(0, MAX_OWN_TASKS);
    original.value = undefined;
  } catch (error) {
    if (isSignedOut(error)) link.signOut();
    else show(error as Error, element);
  }
  isSending.value = false;
}

function show(error: Error, element: HTMLFormElement): void {
  const isUnreachable = error instanceof UnreachableError;
  const { retryAfterMs } = error instanceof ServiceError ? error : {};
  const retryAt = retryAfterMs === undefined ? undefined : Date.now() + retryAfterMs;
  const found = placeError(isUnreachable ? new Error('The service cannot be reached.') : error, fieldsOf(form.value));
  problem.value = { ...found, retryAt, isUnreachable };
  const control = focusField(element, found);
  if (found.path === undefined) return;
  const { start, end } = locate(form.value.json, found.path);
  control?.setSelectionRange(start, end);
}

/**
 * A `failed to queue task` error with a `Retry-After` header means that the queue is full, or that the database server
 * is unavailable, as requests for the state of the queue then tell.
 */
function describe({ message, retryAt }: FormProblem): string {
  if (retryAt === undefined) return message;
  const isFull = isLive.value && message === 'failed to queue task';
  const wait = waitSeconds.value > 0 ? ` Try again in ${waitSeconds.value} s.` : '';
  return `${isFull ? 'The queue is full.' : `The service answers: ${message}.`}${wait}`;
}

function taskOf(shown: typeof form.value): Submission | undefined {
  try {
    return parseForm(shown);
  } catch {
    return undefined;
  }
}

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
        {announced}
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
    if (before === '') announced.value = `Queued ${name}`;
    else if (isUnfinished(before) && !isOpen) {
      const text = `${status === 'unknown' ? 'Lost track of' : titleOf(status)} ${name}${output === '' ? '' : `: ${output}`}`;
      announced.value = text.slice(0, MAX_ANNOUNCEMENT);
    } else if (!isUnfinished(before) && isOpen) {
      setQueuedAt(performance.now());
    }
  }, [status]);
  const cancel = async () => {
    try {
      const isCancelled = await watched.cancel();
      // The event of the cancellation may come before the answer.
      if (!isCancelled && isUnfinished(watched.detail.peek().status)) announced.value = `Cancelling ${name}`;
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
      <bdi class={`own-output clamp ${status === 'completed' ? '' : 'toned'}`}>
        {output.length > MAX_OUTPUT ? `${output.slice(0, MAX_OUTPUT)}…` : output}
      </bdi>{' '}
      <span class="own-state small">
        <span class="toned" data-part="state">
          {watched.isCancelling.value && isOpen ? 'cancelling' : <StateWord detail={detail} />}
        </span>{' '}
        <span class="quiet">
          {isOpen && status !== 'retrying' && <Live text={() => formatSpan(performance.now() - queuedAt)} />}
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

function ranText({ ran_ms, attempts = 1 }: TaskDetail): string {
  if (ran_ms === undefined) return '';
  return `after ${formatSpan(ran_ms)}${attempts > 1 ? ` in ${attempts} attempts` : ''}`;
}

/** State of a task in words, with a countdown while it waits for a time. */
function StateWord({ detail }: { detail: TaskDetail }) {
  const { status, attempt = 1, run_at_ms, next_attempt_at_ms } = detail;
  if (status === 'running' && attempt > 1) return <>{`running, attempt ${attempt}`}</>;
  const dueAtMs = status === 'scheduled' ? run_at_ms : status === 'retrying' ? next_attempt_at_ms : undefined;
  if (dueAtMs === undefined) return <>{status}</>;
  return <>{`${status === 'scheduled' ? 'due' : 'again'} ${formatDue(dueAtMs, now.value)}`}</>;
}

function outputOf({ status, result, reason = '', limit }: TaskDetail): string {
  if (status === 'completed') return outputText(result ?? null);
  if (status === 'failed' || status === 'retrying') return visibleText(reason);
  if (status === 'limited') return limit === undefined ? '' : visibleText(limitText(limit));
  return status === 'unknown' ? 'The service no longer knows this task.' : '';
}

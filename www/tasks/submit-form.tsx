import { computed, effect, signal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import { ServiceError, UnreachableError } from '../client/errors.ts';
import type { ActionList } from '../client/task-client.ts';
import { health, link, linkState } from './board.ts';
import { now } from './clock.ts';
import { curlCommand } from './curl.ts';
import { dataFields, fieldAt } from './data-schema.ts';
import { type Draft, draftOf, fieldsOf, formOf, parseForm } from './draft.ts';
import { FieldError, type Problem } from './fields.ts';
import { FormFields, focusField } from './form-fields.tsx';
import { locate } from './json-location.ts';
import { differences } from './json-text.ts';
import { openAddress, view } from './navigation.ts';
import { addOwnTask } from './own-tasks.tsx';
import { CodeBlock } from './parts.tsx';
import { isSignedOut, listActions, type Submission, submitTask } from './service.ts';
import { visibleText } from './visible-text.ts';

interface FormProblem extends Problem {
  /** JSON Pointer of the wrong part of the data. */
  path?: string;
  /** Time at which the request may be repeated, if the service has named one. */
  retryAt?: number | undefined;
  isUnreachable?: boolean;
}

const MAX_DIFFERENCES = 8;

const EMPTY: Draft = { kind: 'uppercase', text: 'Hello, queue', numbers: '1, 2, 3.5', action: '', data: {} };

// Kept over a reload, as browsers do with fields that are in the HTML file.
const draft = signal<Draft>({ ...EMPTY, ...history.state?.draft });
addEventListener('beforeunload', () => history.replaceState({ draft: draft.value }, ''));

const offered = signal<ActionList>({ actions: [], unknown_actions: 'process' });
const form = computed(() => formOf(draft.value, offered.value));
/** Earlier task that the form was filled with, until a task is queued. */
const original = signal<Submission>();
const problem = signal<FormProblem>();
const isSending = signal(false);
const focusRequests = signal(0);
const isLive = computed(() => linkState.value.kind === 'live');
const waitSeconds = computed(() => Math.ceil(Math.max((problem.value?.retryAt ?? 0) - now.value, 0) / 1_000));

effect(() => {
  const isOver = problem.value?.retryAt !== undefined && waitSeconds.value === 0 && isLive.value && !health.value?.full;
  if (isOver) problem.value = undefined;
});

/** Shows and focuses the form. @param submission earlier task to fill in, so that the user can change and queue it */
export function openForm(submission?: Submission): void {
  if (view.value.page !== 'tasks') openAddress('/');
  if (submission !== undefined) change(draftOf(submission, form.value));
  original.value = submission;
  focusRequests.value += 1;
}

/** Form that queues a task, with the curl command that does the same. */
export function SubmitForm() {
  const element = useRef<HTMLFormElement>(null);
  const { kinds, kind, choice, data } = form.value;
  useEffect(() => {
    if (!isLive.value) return;
    if (problem.value?.isUnreachable) problem.value = undefined;
    // After a failure, the next connection repeats the request.
    listActions().then(offer, () => {});
  }, [isLive.value]);
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
    <section class="panel" aria-labelledby="submit-heading">
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
        <fieldset class="choice">
          <legend class="visually-hidden">Action</legend>
          {kinds.map((each) => (
            <label key={each}>
              <input
                type="radio"
                name="kind"
                value={each}
                checked={each === kind}
                onChange={() => change({ kind: each })}
              />
              <span>{each}</span>
            </label>
          ))}
        </fieldset>
        <FormFields fields={fieldsOf(form.value)} texts={form.value} problem={problem.value} onText={onText} />
        {kind === 'other' && <DataHelp schema={form.value.schema} />}
        {task && original.value && (
          <p class="field-hint" data-part="difference">
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
        <div class="request">
          <CodeBlock
            part="curl"
            heading={<h3 class="label">The same with curl</h3>}
            text={curlCommand(location.origin, task)}
          />
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
    <div class="data-help">
      <h3 class="label" id="data-help-heading">
        Fields
      </h3>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: focusable for keyboard scrolling */}
      <ul tabIndex={0} aria-labelledby="data-help-heading">
        {fields.map((field) => (
          <li key={field.keys.join('/')} class="data-field" data-wrong={field === wrong ? '' : undefined}>
            <p>
              <code class="code">{field.name}</code> <span class="quiet">{field.kind}</span>{' '}
              {field.required && <strong>required</strong>}
            </p>
            <p class="field-hint">{field.about}</p>
          </li>
        ))}
      </ul>
    </div>
  );
}

function offer(actions: ActionList): void {
  offered.value = actions;
}

function change(fields: Partial<Draft>): void {
  draft.value = { ...draft.value, ...fields };
  if (waitSeconds.value === 0) problem.value = undefined;
}

async function submit(element: HTMLFormElement): Promise<void> {
  isSending.value = true;
  problem.value = undefined;
  try {
    const submission = parseForm(form.value);
    addOwnTask(await submitTask(submission), submission);
    original.value = undefined;
  } catch (error) {
    if (isSignedOut(error)) link.signOut();
    else show(problemOf(error as Error), element);
  }
  isSending.value = false;
}

function problemOf(error: Error): FormProblem {
  if (error instanceof FieldError) return error;
  if (error instanceof UnreachableError)
    return { field: undefined, message: 'The service cannot be reached.', isUnreachable: true };
  const { message } = error;
  const { path, detail = '', retryAfterMs } = error instanceof ServiceError ? error : {};
  const retryAt = retryAfterMs === undefined ? undefined : Date.now() + retryAfterMs;
  if (path === undefined) return { field: undefined, message, retryAt };
  const field = form.value.kind === 'other' ? 'json' : undefined;
  return { field, message: `${message}: ${path || 'it'} ${detail}`, path };
}

function show(found: FormProblem, element: HTMLFormElement): void {
  problem.value = found;
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

import { useSignal } from '@preact/signals';
import type { RefObject } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';
import type { Attempt } from '../client/task-state.ts';
import { linkState } from './board.ts';
import { isUnfinished } from './board-task.ts';
import { redrive } from './bulk-changes.tsx';
import { Dialog } from './dialogs.tsx';
import { indent, isNested, parseJson, readPayload } from './json-text.ts';
import { changeView, followLink, isReplaced, view } from './navigation.ts';
import { Button, CodeBlock, CopyButton, Icon, Mark, now, Progress, Time } from './parts.tsx';
import { client, curlCommand, type Submission } from './service.ts';
import { openForm } from './submit-form.tsx';
import { factsOf, noteOf, type Step, timelineOf } from './task-detail.ts';
import { formatDue, formatSize, formatSpan, visibleText } from './texts.ts';
import { useTask, type WatchedTask } from './watched-task.ts';

/** Entries of an object or array that are shown, and nested levels. What is beyond is in the text only. */
const MAX_ENTRIES = 100;
const MAX_DEPTH = 8;
const OPEN_DEPTH = 2;
const MAX_CHARACTERS = 200;

export function Inspector() {
  const { task } = view.value;
  // The inspector must not cover the sign-in form.
  return task !== undefined && linkState.value.kind !== 'signed-out' && <InspectorDialog id={task} />;
}

const close = () => changeView({ task: undefined });

document.addEventListener('keydown', ({ key, target }) => {
  // Elsewhere the key closes another dialog or clears an input.
  const isOther = document.querySelector('dialog:modal:not(.inspector)') !== null;
  if (key === 'Escape' && !isOther && !(target as Element).matches('input, textarea, select')) close();
});

function InspectorDialog({ id }: { id: string }) {
  const title = useRef<HTMLHeadingElement>(null);
  useLayoutEffect(() => {
    title.current?.closest('dialog')?.scrollTo(0, 0);
    // The keys that move to another row keep the focus in the list.
    if (!isReplaced()) title.current?.focus();
  }, [id]);
  return (
    <Dialog part="inspector" class="inspector" heading="inspector-heading" isBeside onClose={close}>
      <Inspected key={id} id={id} title={title} />
    </Dialog>
  );
}

function Inspected({ id, title }: { id: string; title: RefObject<HTMLHeadingElement | null> }) {
  const watched = useTask(id);
  const idText = useRef<HTMLElement>(null);
  const detail = watched.detail.value;
  const { status, payload } = detail;
  const submission = payload === undefined ? undefined : readPayload(payload);
  const note = watched.problem.value || noteOf(detail);
  const facts = factsOf(detail, submission);
  const isKnown = status !== 'unknown' && status !== 'loading';
  const shownState = status === 'loading' ? (watched.known()?.state ?? status) : status;
  return (
    <>
      <div class="inspector-head row" data-state={shownState}>
        <h2 class="truncate" id="inspector-heading" tabIndex={-1} ref={title}>
          <bdi data-part="inspector-title">{visibleText(submission?.action ?? watched.known()?.action ?? 'Task')}</bdi>
        </h2>
        <span class="row small strong">
          <Mark state={shownState} />
          <span data-part="inspector-state">{shownState}</span>
        </span>
        <Button class="button button-plain button-icon push" aria-label="Close the task" onClick={close}>
          <Icon name="close" />
        </Button>
      </div>
      <div class="inspector-body stack">
        <p class="row">
          <code data-part="inspector-id" ref={idText}>
            {id}
          </code>{' '}
          <CopyButton text={id} source={idText} label="Copy the id" />
        </p>
        <p class="notice" role="status" hidden={note === ''}>
          {note}
        </p>
        {facts.length > 0 && (
          <dl class="facts" data-part="facts">
            {facts.map(({ term, text, address, rest = '' }) => (
              <div key={term}>
                <dt>{term}</dt>
                <dd>
                  {address === undefined ? (
                    <bdi>{visibleText(text)}</bdi>
                  ) : (
                    <a href={address} onClick={followLink}>
                      {visibleText(text)}
                    </a>
                  )}
                  {visibleText(rest)}
                </dd>
              </div>
            ))}
          </dl>
        )}
        <Progress progress={status === 'running' ? detail.progress : undefined} label="Progress" />
        <Actions watched={watched} submission={submission} title={title} />
        <section class="stack" aria-labelledby="timeline-heading">
          <h3 id="timeline-heading">Timeline</h3>
          <ol>
            {isKnown &&
              timelineOf(detail, watched.known()).map((step, index, steps) => (
                <TimelineStep key={index} step={step} previous={steps[index - 1]} isLast={index === steps.length - 1} />
              ))}
          </ol>
        </section>
        <LongText part="payload-text" name="Payload" text={payload} />
        <LongText part="result-text" name="Result" text={detail.result ?? undefined} />
        {submission !== undefined && (
          <section class="stack tight" data-part="curl-text">
            <CodeBlock
              text={curlCommand(submission)}
              copyLabel="Copy the curl command"
              heading={<h3>The same with curl</h3>}
            />
          </section>
        )}
      </div>
    </>
  );
}

function LongText({ part, name, text }: { part: string; name: string; text: string | undefined }) {
  if (text === undefined) return null;
  const value = parseJson(text);
  const heading = (
    <h3>
      {name} <span class="quiet">{formatSize(new Blob([text]).size)}</span>
    </h3>
  );
  return (
    <section class="stack tight" data-part={part}>
      <CodeBlock text={indent(text)} copyLabel={`Copy the ${name.toLowerCase()}`} heading={heading}>
        {isNested(value) && <JsonTree value={value} />}
      </CodeBlock>
    </section>
  );
}

/** Objects and arrays of a JSON value as folders. */
function JsonTree({ value, depth = 0 }: { value: object; depth?: number }) {
  const entries = Object.entries(value);
  return (
    <ul class="tree small" data-part={depth === 0 ? 'tree' : undefined}>
      {entries.slice(0, MAX_ENTRIES).map(([key, each]) => (
        <li key={key}>
          {isNested(each) && Object.keys(each).length > 0 && depth < MAX_DEPTH ? (
            <details open={depth + 1 < OPEN_DEPTH}>
              <summary>
                <bdi class="quiet">{visibleText(key)}</bdi>: {countText(each)}
              </summary>
              <JsonTree value={each} depth={depth + 1} />
            </details>
          ) : (
            <>
              <bdi class="quiet">{visibleText(key)}</bdi>: <bdi>{scalarText(each)}</bdi>
            </>
          )}
        </li>
      ))}
      {entries.length > MAX_ENTRIES && <li class="quiet">{entries.length - MAX_ENTRIES} more</li>}
    </ul>
  );
}

function countText(value: object): string {
  const count = Object.keys(value).length;
  return Array.isArray(value) ? `[${count}]` : `{${count}}`;
}

function scalarText(value: unknown): string {
  const text = isNested(value) ? countText(value) : JSON.stringify(value);
  return visibleText(text.length > MAX_CHARACTERS ? `${text.slice(0, MAX_CHARACTERS)}…` : text);
}

function TimelineStep({ step, previous, isLast }: { step: Step; previous: Step | undefined; isLast: boolean }) {
  const { kind, title, atMs, isExact = false, run, reason = '', stack = '' } = step;
  return (
    <li class="step">
      <Mark state={kind === 'failed-attempt' ? 'failed' : kind} />
      <p class="row tight">
        <span class="strong">{title}</span> <span data-part="step-live">{isLast && <LiveTime step={step} />}</span>{' '}
        <span class="quiet small push">{atMs !== undefined && <Time at={atMs} isExact={isExact} />}</span>{' '}
        <span class="quiet small step-span">{spanText(step, previous)}</span>
      </p>{' '}
      {run && <Run attempt={run} />} <bdi class="step-reason small down">{visibleText(reason)}</bdi>{' '}
      {stack !== '' && (
        <details class="small">
          <summary>Stack</summary>
          {/* biome-ignore lint/a11y/noNoninteractiveTabindex: focusable for keyboard scrolling */}
          <pre class="code" data-part="step-stack" tabIndex={0}>
            {visibleText(stack)}
          </pre>
        </details>
      )}
    </li>
  );
}

function Run({ attempt: { started_at_ms: startedAt, ended_at_ms, node } }: { attempt: Attempt }) {
  if (startedAt === null && node === undefined) return null;
  return (
    <p class="small quiet">
      {startedAt !== null && (
        <>
          started <Time at={startedAt} isExact />, took {formatSpan(Math.max(ended_at_ms - startedAt, 0))}
        </>
      )}
      {node !== undefined && ` on ${visibleText(node)}`}
    </p>
  );
}

function LiveTime({ step: { kind, atMs } }: { step: Step }) {
  if (isAhead(kind)) return <>{formatDue(atMs, now.value)}</>;
  return kind === 'running' && atMs !== undefined && <>{`for ${formatSpan(Math.max(now.value - atMs, 0))}`}</>;
}

function spanText({ kind, atMs, isExact }: Step, previous: Step | undefined): string {
  if (atMs === undefined || previous?.atMs === undefined || isAhead(kind)) return '';
  const isMeasured = isExact === true && previous.isExact === true;
  const spanMs = Math.max(atMs - previous.atMs, 0);
  // A span below two seconds between times in whole seconds is not shown, because it would be mostly rounding error.
  return isMeasured || spanMs >= 2_000 ? `+${formatSpan(spanMs)}` : '';
}

const isAhead = (kind: Step['kind']): boolean => kind === 'retrying' || kind === 'scheduled';

interface ActionsProps {
  title: RefObject<HTMLHeadingElement | null>;
  watched: WatchedTask;
  submission: Submission | undefined;
}

function Actions({ watched, submission, title }: ActionsProps) {
  const { id, status, permanent } = watched.detail.value;
  const error = useSignal('');
  const row = useRef<HTMLDivElement>(null);
  const hadFocus = row.current?.contains(document.activeElement) ?? false;
  // If the button with the focus is gone, the title gets the focus.
  useLayoutEffect(() => {
    if (hadFocus && document.activeElement === document.body) title.current?.focus();
  });
  const report = async (request: Promise<unknown>, failure: string) => {
    try {
      await request;
      error.value = '';
    } catch (cause) {
      error.value = `${failure}: ${(cause as Error).message}`;
    }
  };
  return (
    <>
      <div class="row" ref={row}>
        {(status === 'scheduled' || status === 'retrying') && (
          <Button onClick={() => void report(client.task(id).run(), 'Not run')}>Run now</Button>
        )}
        {isUnfinished(status) && (
          <Button
            aria-disabled={watched.isCancelling.value}
            onClick={() => void report(watched.cancel(), 'Not cancelled')}
          >
            {watched.isCancelling.value ? 'Cancelling' : 'Cancel'}
          </Button>
        )}
        {status === 'failed' && <Button onClick={() => redrive({ id, permanent })}>Redrive</Button>}
        {/* A submitted copy of a callback would be an ordinary task. */}
        {submission !== undefined && submission.action !== 'callback' && (
          <Button
            onClick={() => {
              close();
              openForm(submission);
            }}
          >
            Edit and resubmit
          </Button>
        )}
      </div>
      <p class="field-error" role="alert" data-part="inspector-error">
        {error}
      </p>
    </>
  );
}

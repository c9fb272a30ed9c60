import { useSignal } from '@preact/signals';
import { useEffect, useLayoutEffect, useMemo, useRef } from 'preact/hooks';
import type { Attempt } from '../client/task-state.ts';
import { CopyButton, Icon } from '../shared/controls.tsx';
import { formatSize, formatSpan } from './amounts.ts';
import { linkState, model } from './board.ts';
import { isUnfinished } from './board-task.ts';
import { now } from './clock.ts';
import { indent, parseJson, readPayload } from './json-text.ts';
import { JsonTree } from './json-tree.tsx';
import { changeView, followLink, isMoving, view } from './navigation.ts';
import { Button, CodeBlock, Mark, Progress, Time } from './parts.tsx';
import { redrive } from './selection.ts';
import { curlCommand, isSignedOut, runTask, type Submission } from './service.ts';
import { type Fact, factsOf, noteOf, type Step, type TaskDetail, timelineOf } from './task-detail.ts';
import { visibleText } from './visible-text.ts';
import { WatchedTask } from './watched-task.ts';

/** Windows that the inspector covers completely. */
const NARROW = '(max-width: 48rem)';

export interface InspectorProps {
  onResubmit(submission: Submission): void;
}

/** Panel that shows the task of the address with its timeline, payload, result and progress. */
export function Inspector({ onResubmit }: InspectorProps) {
  const { task: id } = view.value;
  const dialog = useRef<HTMLDialogElement>(null);
  const title = useRef<HTMLHeadingElement>(null);
  const opener = useRef<Element | null>(null);
  // The inspector must not cover the sign-in form.
  const isOpen = id !== undefined && linkState.value.kind !== 'signed-out';
  const close = () => {
    const { current } = opener;
    changeView({ task: undefined });
    if (current instanceof HTMLElement && current.isConnected) current.focus();
  };
  useLayoutEffect(() => {
    const { current } = dialog;
    if (current === null) return;
    const active = document.activeElement;
    if (isOpen && !current.open) {
      opener.current = active;
      if (matchMedia(NARROW).matches) current.showModal();
      else current.show();
    }
    if (!isOpen && current.open) current.close();
    if (!isOpen) return;
    current.scrollTop = 0;
    if (!isMoving()) title.current?.focus();
    else if (active instanceof HTMLElement) active.focus();
  }, [id, isOpen]);
  useEffect(() => {
    const onKey = ({ key, target }: KeyboardEvent) => {
      if (key === 'Escape' && dialog.current?.open && !isElsewhere(target, dialog.current)) close();
    };
    document.addEventListener('keydown', onKey);
    return () => document.removeEventListener('keydown', onKey);
  }, []);
  return (
    <dialog
      class="inspector"
      data-part="inspector"
      aria-labelledby="inspector-heading"
      ref={dialog}
      onCancel={(event) => {
        event.preventDefault();
        close();
      }}
    >
      {isOpen && (
        <Inspected
          key={id}
          id={id}
          title={title}
          onClose={close}
          onResubmit={(submission) => {
            changeView({ task: undefined });
            onResubmit(submission);
          }}
        />
      )}
    </dialog>
  );
}

/** Returns whether the Escape key has another function at an element: closing another dialog or clearing an input. */
function isElsewhere(target: EventTarget | null, inspector: HTMLDialogElement): boolean {
  const dialog = document.querySelector('dialog:modal');
  return (dialog !== null && dialog !== inspector) || (target as Element).matches('input, textarea, select');
}

interface InspectedProps extends InspectorProps {
  id: string;
  title: { current: HTMLHeadingElement | null };
  onClose(): void;
}

function Inspected({ id, title, onClose, onResubmit }: InspectedProps) {
  const watched = useMemo(() => new WatchedTask(id, model), []);
  useEffect(() => () => watched.close(), []);
  const idText = useRef<HTMLElement>(null);
  const detail = watched.detail.value;
  const { status, payload } = detail;
  const submission = payload === undefined ? undefined : readPayload(payload);
  const error = watched.error.value;
  const note = error === undefined || isSignedOut(error) ? noteOf(detail) : `Not up to date: ${error.message}`;
  const facts = factsOf(detail, submission);
  const isKnown = status !== 'unknown' && status !== 'loading';
  const shownState = status === 'loading' ? (watched.known?.state ?? status) : status;
  return (
    <>
      <div class="inspector-head row" data-state={shownState}>
        <h2 class="truncate" id="inspector-heading" tabIndex={-1} ref={title}>
          <bdi data-part="inspector-title">{visibleText(submission?.action ?? watched.known?.action ?? 'Task')}</bdi>
        </h2>
        <span class="row small strong">
          <Mark state={shownState} />
          <span data-part="inspector-state">{shownState}</span>
        </span>
        <button
          type="button"
          class="button button-plain button-icon push"
          aria-label="Close the task"
          onClick={onClose}
        >
          <Icon name="close" />
        </button>
      </div>
      <div class="inspector-body stack">
        <p class="row">
          <code class="code" data-part="inspector-id" ref={idText}>
            {id}
          </code>{' '}
          <CopyButton text={id} source={idText} label="Copy the id" />
        </p>
        <p class="notice" role="status" hidden={note === ''}>
          {note}
        </p>
        {facts.length > 0 && (
          <dl class="facts" data-part="facts">
            {facts.map((fact) => (
              <FactPair key={fact.term} fact={fact} />
            ))}
          </dl>
        )}
        <Progress progress={status === 'running' ? detail.progress : undefined} label="Progress" />
        <Actions watched={watched} detail={detail} submission={submission} title={title} onResubmit={onResubmit} />
        <section class="stack" aria-labelledby="timeline-heading">
          <h3 id="timeline-heading">Timeline</h3>
          <ol>
            {isKnown &&
              timelineOf(detail, watched.known).map((step, index, steps) => (
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
        {typeof value === 'object' && value !== null && <JsonTree value={value} />}
      </CodeBlock>
    </section>
  );
}

function FactPair({ fact: { term, text, address, rest = '' } }: { fact: Fact }) {
  const shown = visibleText(text);
  return (
    <div>
      <dt>{term}</dt>
      <dd>
        {address === undefined ? (
          <bdi>{shown}</bdi>
        ) : (
          <a href={address} onClick={followLink}>
            {shown}
          </a>
        )}
        {visibleText(rest)}
      </dd>
    </div>
  );
}

function TimelineStep({ step, previous, isLast }: { step: Step; previous: Step | undefined; isLast: boolean }) {
  const { kind, title, atMs, isExact = false, run, reason = '', stack = '' } = step;
  return (
    <li class="step" data-kind={kind}>
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

/** Start, duration and node of an attempt. */
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

/** Time since a step, or until it. */
function LiveTime({ step: { kind, atMs } }: { step: Step }) {
  if (atMs === undefined) return null;
  const sinceMs = now.value - atMs;
  if (kind === 'running') return <>{`for ${formatSpan(Math.max(sinceMs, 0))}`}</>;
  if (isAhead(kind)) return <>{sinceMs < 0 ? `in ${formatSpan(-sinceMs)}` : 'is due'}</>;
  return null;
}

function spanText({ kind, atMs, isExact }: Step, previous: Step | undefined): string {
  if (atMs === undefined || previous?.atMs === undefined || isAhead(kind)) return '';
  const isMeasured = isExact === true && previous.isExact === true;
  const spanMs = Math.max(atMs - previous.atMs, 0);
  // A span below two seconds between times in whole seconds is not shown, because it would be mostly rounding error.
  return isMeasured || spanMs >= 2_000 ? `+${formatSpan(spanMs)}` : '';
}

function isAhead(kind: Step['kind']): boolean {
  return kind === 'retrying' || kind === 'scheduled';
}

interface ActionsProps extends InspectorProps {
  watched: WatchedTask;
  detail: TaskDetail;
  submission: Submission | undefined;
  title: { current: HTMLHeadingElement | null };
}

/** Buttons that run, cancel, redrive, or edit and resubmit the inspected task. */
function Actions({ watched, detail: { id, status, permanent }, submission, title, onResubmit }: ActionsProps) {
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
    watched.read();
  };
  return (
    <>
      <div class="row" ref={row}>
        {(status === 'scheduled' || status === 'retrying') && (
          <Button onClick={() => void report(runTask(id), 'Not run')}>Run now</Button>
        )}
        {isUnfinished(status) && (
          <Button aria-disabled={watched.isCancelling} onClick={() => void report(watched.cancel(), 'Not cancelled')}>
            {watched.isCancelling ? 'Cancelling' : 'Cancel'}
          </Button>
        )}
        {status === 'failed' && (
          <Button onClick={() => redrive({ id, permanent }, () => watched.read())}>Redrive</Button>
        )}
        {/* A submitted copy of a callback would be an ordinary task. */}
        {submission !== undefined && submission.action !== 'callback' && (
          <Button onClick={() => onResubmit(submission)}>Edit and resubmit</Button>
        )}
      </div>
      <p class="field-error" role="alert" data-part="inspector-error">
        {error}
      </p>
    </>
  );
}

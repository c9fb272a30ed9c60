import { signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { LetterSelection } from '../client/dead-letters.ts';
import type { CancelSelection } from '../client/task-client.ts';
import { formatCount, formatTasks } from './amounts.ts';
import { now } from './clock.ts';
import { ask, type Question } from './dialogs.tsx';
import { SmallButton } from './parts.tsx';
import { changeTasks } from './service.ts';

const UNDO_MS = 8_000;
const RESULT_MS = 6_000;
/** Largest number of tasks that are redriven without a confirmation. */
const MAX_UNASKED = 10;
/** Tasks a second of a slow redrive. */
const PACES = [1, 10, 100];

/** Change of many tasks. `count` and `permanent` are the numbers of tasks, and of permanent failures. */
export interface Deed {
  verb: 'redrive' | 'purge' | 'cancel';
  selection: LetterSelection | CancelSelection;
  /** Selected tasks in the list, which are not shown meanwhile. */
  ids: ReadonlySet<string>;
  count: number;
  /** Number of tasks that a redrive makes due per second. By default, all are due at once. */
  perSecond?: number;
  /** Whether more tasks than `count` may match. */
  isLowerBound?: boolean;
  permanent: number;
  /** Called when the deed is confirmed, and after it was undone or answered. */
  onStart?(): void;
  onEnd?(isDone: boolean): void;
}

export const FORMS = {
  redrive: { title: 'Redrive', done: 'Redrove', passive: 'redriven', running: 'Redriving', kept: 'keeps them failed' },
  purge: { title: 'Purge', done: 'Purged', passive: 'purged', running: 'Purging', kept: 'keeps them' },
  cancel: { title: 'Cancel', done: 'Cancelled', passive: 'cancelled', running: 'Cancelling', kept: 'keeps them' },
} as const;

/** Confirmed deed that the user can still undo, and `performance.now()` when it is sent. */
const pending = signal<{ deed: Deed; sendAt: number }>();
/** Deeds that were sent but not answered. */
const sending = signal<readonly Deed[]>([]);
/** Text that says what happens or has happened, or an empty string. */
const said = signal('');
let sendTimer: ReturnType<typeof setTimeout> | undefined;
let hideTimer: ReturnType<typeof setTimeout> | undefined;

/** Redrives a few selected tasks at once. Any other deed is asked about, and can then be undone for {@link UNDO_MS}. */
export async function begin(begun: Deed): Promise<void> {
  const isFew = 'ids' in begun.selection && begun.count <= MAX_UNASKED;
  if (begun.verb === 'redrive' && isFew && begun.permanent === 0) {
    begun.onStart?.();
    return send(begun);
  }
  const confirmation = await ask(questionOf(begun));
  if (confirmation === undefined) return;
  const { perSecond } = confirmation;
  const deed = perSecond > 0 ? { ...begun, perSecond } : begun;
  sendPending();
  pending.value = { deed, sendAt: performance.now() + UNDO_MS };
  say('');
  sendTimer = setTimeout(sendPending, UNDO_MS);
  deed.onStart?.();
}

/** Returns whether a task belongs to a deed that is pending or being sent. */
export function isTaken({ id }: { id: string }): boolean {
  return [...sending.value, ...(pending.value ? [pending.value.deed] : [])].some(({ ids }) => ids.has(id));
}

function questionOf({ verb, selection, count, isLowerBound, permanent }: Deed): Question {
  const { passive, title, kept } = FORMS[verb];
  const deleted = verb === 'purge' ? 'Purged tasks are deleted and cannot be redriven. ' : '';
  const open = 'ids' in selection ? '' : ` Tasks that match by then are ${passive}, too.`;
  return {
    question: `${title} ${isLowerBound ? 'at least ' : ''}${formatTasks(count)}?`,
    warning: verb === 'redrive' ? permanentText(permanent, count) : '',
    consequence: `${deleted}You can undo this for 8 seconds. Leaving this page within that time ${kept}.${open}`,
    paces: verb === 'redrive' && count > MAX_UNASKED ? PACES : [],
    yes: title,
    no: 'Keep',
  };
}

export function permanentText(permanent: number, count: number): string {
  if (permanent === 0) return '';
  const subject =
    permanent === count && count > 1
      ? 'All failed permanently'
      : permanent === 1
        ? `${count === 1 ? 'It' : '1 of them'} has a permanent error`
        : `${formatCount(permanent)} have permanent errors`;
  return `${subject}: a redrive fails again unless the cause is fixed.`;
}

// Leaving the page cancels the deed, even if the browser keeps the page in its back/forward cache.
globalThis.addEventListener?.('pagehide', () => takeBack(''));

function takeBack(prefix: string): void {
  const deed = takePending();
  if (deed === undefined) return;
  const [before] = sending.peek();
  const rest =
    before === undefined ? `Nothing was ${FORMS[deed.verb].passive}.` : `The ${before.verb} before it is being sent.`;
  say(prefix + rest);
  deed.onEnd?.(false);
}

function takePending(): Deed | undefined {
  clearTimeout(sendTimer);
  const deed = pending.peek()?.deed;
  pending.value = undefined;
  return deed;
}

function sendPending(): void {
  const deed = takePending();
  if (deed !== undefined) void send(deed);
}

async function send(deed: Deed): Promise<void> {
  if (pending.peek() === undefined) say(FORMS[deed.verb].running);
  sending.value = [...sending.peek(), deed];
  const { text, isDone } = await resultOf(deed);
  deed.onEnd?.(isDone);
  sending.value = sending.peek().filter((each) => each !== deed);
  say(text);
}

async function resultOf(deed: Deed): Promise<{ text: string; isDone: boolean }> {
  const { verb, selection, perSecond } = deed;
  const { done, passive } = FORMS[verb];
  try {
    const { count, remaining } = await changeTasks(verb, selection, perSecond);
    if ('ids' in selection && count + remaining === 0) throw new Error(goneText(deed));
    const rest =
      verb === 'redrive'
        ? 'did not fit into the queue. Redrive them later.'
        : `more can be ${passive} with another ${verb}.`;
    const text = `${done} ${formatTasks(count)}.${remaining === 0 ? '' : ` ${formatTasks(remaining)} ${rest}`}`;
    return { text, isDone: remaining === 0 };
  } catch (error) {
    return { text: `Not ${passive}: ${(error as Error).message}`, isDone: false };
  }
}

/** Shows a text, and the deed that can still be undone. They disappear after a while, unless a deed is pending or being sent. */
export function say(text: string): void {
  clearTimeout(hideTimer);
  const deed = pending.peek()?.deed;
  said.value = deed === undefined ? text : `${text} ${pendingText(deed)}`.trim();
  hideTimer = setTimeout(() => {
    if (pending.peek() === undefined && sending.peek().length === 0) said.value = '';
  }, RESULT_MS);
}

/** Says why a change of selected tasks changed none. */
function goneText({ verb, count }: Deed): string {
  const these = count === 1 ? 'this task' : 'these tasks';
  return verb === 'cancel' ? `${these} ended before.` : `the service no longer has ${these} among the failed ones.`;
}

function pendingText({ verb, count }: Deed): string {
  const { passive, kept } = FORMS[verb];
  return `${formatTasks(count)} will be ${passive} in ${UNDO_MS / 1_000} seconds. Leaving this page ${kept}.`;
}

/** Notice of a deed that can be undone, and of what has come of it. */
export function UndoNotice() {
  const isPending = pending.value !== undefined;
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    if (isPending) button.current?.focus();
  }, [pending.value]);
  return (
    <div class="purge-notice panel row pad" data-part="purge-notice" hidden={said.value === ''}>
      <p class="grow" role="status" data-part="purge-text">
        {said}
      </p>
      <Countdown />
      {isPending && (
        <SmallButton data-part="purge-undo" ref={button} onClick={() => takeBack('Undone. ')}>
          Undo
        </SmallButton>
      )}
    </div>
  );
}

function Countdown() {
  now.value;
  const { value } = pending;
  const seconds = value && Math.max(Math.ceil((value.sendAt - performance.now()) / 1_000), 0);
  return (
    <span class="quiet" aria-hidden="true">
      {seconds === undefined ? '' : `${seconds} s`}
    </span>
  );
}

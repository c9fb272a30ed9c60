import { signal } from '@preact/signals';
import type { BulkResult, LetterSelection } from '../client/dead-letters.ts';
import { formatCount, formatTasks } from './amounts.ts';
import { contains, purgeLetters, redriveLetters } from './dead-letters.ts';

export const UNDO_MS = 8_000;
const RESULT_MS = 6_000;
/** Largest number of tasks that are redriven without a confirmation. */
const MAX_UNASKED = 10;

/** Redrive or purge of dead letters. `count` and `permanent` are the numbers of tasks, and of permanent failures. */
export interface Deed {
  verb: 'redrive' | 'purge';
  selection: LetterSelection;
  count: number;
  permanent: number;
  /** Called when the deed is confirmed, and after it was undone or answered. */
  onStart?(): void;
  onEnd?(isDone: boolean): void;
}

const FORMS = {
  redrive: { done: 'Redrove', passive: 'redriven', running: 'Redriving', title: 'Redrive' },
  purge: { done: 'Purged', passive: 'purged', running: 'Purging', title: 'Purge' },
} as const;

/** Deed that the user is asked to confirm. */
export const asked = signal<Deed>();
/** Confirmed deed that the user can still undo, and `performance.now()` when it is sent. */
export const pending = signal<{ deed: Deed; sendAt: number }>();
/** Text that says what happens or has happened, or an empty string. */
export const said = signal('');
/** Deeds that were sent but not answered. */
const sending = signal<readonly Deed[]>([]);
let sendTimer: ReturnType<typeof setTimeout> | undefined;
let hideTimer: ReturnType<typeof setTimeout> | undefined;

/** Redrives a few tasks at once. Any other deed is asked about, and can then be undone for {@link UNDO_MS}. */
export function begin(deed: Deed): void {
  if (deed.verb === 'redrive' && deed.count <= MAX_UNASKED && deed.permanent === 0) void send(deed);
  else asked.value = deed;
}

export function confirm(): void {
  const deed = asked.peek();
  asked.value = undefined;
  if (deed === undefined) return;
  const replaced = takePending();
  if (replaced !== undefined) void send(replaced);
  pending.value = { deed, sendAt: performance.now() + UNDO_MS };
  say(pendingText(deed));
  sendTimer = setTimeout(() => {
    const due = takePending();
    if (due !== undefined) void send(due);
  }, UNDO_MS);
  deed.onStart?.();
}

export function undo(): void {
  takeBack('Undone. ');
}

/** Returns whether a dead letter belongs to a deed that is pending or being sent. */
export function isTaken(letter: { id: string; action: string; cause?: string }): boolean {
  const deeds = [...sending.value, ...(pending.value === undefined ? [] : [pending.value.deed])];
  return deeds.some(({ selection }) => contains(selection, letter));
}

/** Title, question and consequence of a deed. */
export function questionOf({ verb, selection, count, permanent }: Deed) {
  const { passive, title } = FORMS[verb];
  const open = 'ids' in selection ? '' : ` Tasks that fail until then and match are ${passive}, too.`;
  const consequence =
    verb === 'purge'
      ? 'Purged tasks are deleted and cannot be redriven. You can undo this for 8 seconds. Leaving this page within that time keeps them.'
      : 'You can undo this for 8 seconds. Leaving this page within that time keeps them failed.';
  const cause = verb === 'redrive' ? permanentText(permanent, count) : '';
  return { title, question: `${title} ${formatTasks(count)}?`, cause, consequence: consequence + open };
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
  const { passive } = FORMS[deed.verb];
  const before = sending.peek()[0];
  say(
    before === undefined ? `${prefix}Nothing was ${passive}.` : `${prefix}The ${before.verb} before it is being sent.`,
  );
  deed.onEnd?.(false);
}

function takePending(): Deed | undefined {
  clearTimeout(sendTimer);
  const deed = pending.peek()?.deed;
  pending.value = undefined;
  return deed;
}

async function send(deed: Deed): Promise<void> {
  if (pending.peek() === undefined) say(FORMS[deed.verb].running);
  sending.value = [...sending.peek(), deed];
  const { text, isDone } = await resultOf(deed);
  deed.onEnd?.(isDone);
  sending.value = sending.peek().filter((each) => each !== deed);
  const later = pending.peek();
  say(later === undefined ? text : `${text} ${pendingText(later.deed)}`);
}

async function resultOf({ verb, selection }: Deed): Promise<{ text: string; isDone: boolean }> {
  const { done, passive } = FORMS[verb];
  const request: (selection: LetterSelection) => Promise<BulkResult> = verb === 'purge' ? purgeLetters : redriveLetters;
  try {
    const { count, remaining } = await request(selection);
    const rest =
      verb === 'purge' ? 'more can be purged with another purge.' : 'did not fit into the queue. Redrive them later.';
    const text = `${done} ${formatTasks(count)}.${remaining === 0 ? '' : ` ${formatTasks(remaining)} ${rest}`}`;
    return { text, isDone: remaining === 0 };
  } catch (error) {
    return { text: `Not ${passive}: ${(error as Error).message}`, isDone: false };
  }
}

/** Shows a text. It disappears after a while, unless a deed is pending or being sent. */
function say(text: string): void {
  clearTimeout(hideTimer);
  said.value = text;
  hideTimer = setTimeout(() => {
    if (pending.peek() === undefined && sending.peek().length === 0) said.value = '';
  }, RESULT_MS);
}

function pendingText({ verb, count }: Deed): string {
  const { passive } = FORMS[verb];
  const kept = verb === 'purge' ? 'keeps them' : 'keeps them failed';
  return `${formatTasks(count)} will be ${passive} in ${UNDO_MS / 1_000} seconds. Leaving this page ${kept}.`;
}

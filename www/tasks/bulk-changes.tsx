import { computed, signal } from '@preact/signals';
import { useEffect, useRef } from 'preact/hooks';
import type { BulkResult, LetterSelection } from '../client/dead-letters.ts';
import type { CancelSelection } from '../client/task-client.ts';
import { filterOf } from './address.ts';
import { model } from './board.ts';
import { type BoardTask, isUnfinished, type State } from './board-task.ts';
import { matchingPermanent } from './causes.tsx';
import { ask, type Question } from './dialogs.tsx';
import type { TaskList } from './model.ts';
import { view } from './navigation.ts';
import { Live, SmallButton } from './parts.tsx';
import { client } from './service.ts';
import type { StillList } from './still-list.ts';
import { formatCount, formatTasks } from './texts.ts';

const UNDO_MS = 8_000;
const RESULT_MS = 6_000;
/** Largest number of tasks that are redriven without a confirmation. */
const MAX_UNASKED = 10;
/** Tasks a second of a slow redrive. */
const PACES = [1, 10, 100];

const WORDS = {
  redrive: { title: 'Redrive', done: 'Redrove', passive: 'redriven', running: 'Redriving', kept: 'keeps them failed' },
  purge: { title: 'Purge', done: 'Purged', passive: 'purged', running: 'Purging', kept: 'keeps them' },
  cancel: { title: 'Cancel', done: 'Cancelled', passive: 'cancelled', running: 'Cancelling', kept: 'keeps them' },
} as const;

type Verb = keyof typeof WORDS;

/** Change of many tasks. `count` and `permanent` are the numbers of tasks, and of permanent failures. */
interface BulkChange {
  verb: Verb;
  selection: LetterSelection | CancelSelection;
  /** Selected tasks in the list, which are not shown meanwhile. */
  ids: ReadonlySet<string>;
  count: number;
  /** Number of tasks that a redrive makes due per second, or 0 if all are due at once. */
  perSecond?: number;
  isLowerBound?: boolean;
  permanent: number;
}

/** Selected tasks of the list that is shown, or all that match its filter, including tasks that are not listed. */
export const selection = signal<{ ids: ReadonlySet<string>; isAll: boolean }>({ ids: new Set(), isAll: false });
let releaseSelected = () => {};

/** Bulk changes that are confirmed but not answered. One of them may be pending. */
const confirmed = signal<readonly BulkChange[]>([]);
/** Confirmed bulk change that the user can still undo, and `performance.now()` when it is sent. */
const pending = signal<{ change: BulkChange; sendAt: number; decide(isSent: boolean): void }>();
/** Text that says what happens or has happened, or an empty string. */
const said = signal('');
let hideTimer: ReturnType<typeof setTimeout> | undefined;

/** Returns the changes that the list of a state offers for selected tasks. */
export function verbsOf(state: string): readonly Verb[] {
  if (isUnfinished(state)) return ['cancel'];
  return state === 'failed' ? ['redrive', 'purge'] : [];
}

/** Whether the changes that the list of a state offers apply to a task. A list that stands still shows other tasks, too. */
export function isSelectable(id: string, state: State): boolean {
  const task = model.get(id);
  return task !== undefined && (isUnfinished(state) ? isUnfinished(task.state) : task.state === state);
}

/** Selects exactly these tasks, or all that match. */
export function select(ids: readonly string[], isAll = false): void {
  releaseSelected();
  const selected = new Set(ids);
  releaseSelected = model.keep(selected);
  selection.value = { ids: selected, isAll };
}

/** Number of permanent failures among the selected tasks, or without a selection among all that match. */
function selectedPermanent(): number {
  const { ids, isAll } = selection.value;
  if (isAll || ids.size === 0) return matchingPermanent.value;
  return [...ids].filter((id) => model.get(id)?.permanent === true).length;
}

/** Begins a change of the selected tasks, or without a selection of all that match. */
async function beginSelected(verb: Verb, list: TaskList): Promise<void> {
  const { isAll, ids } = selection.peek();
  const permanent = verb === 'cancel' ? 0 : selectedPermanent();
  const isOfIds = !isAll && ids.size > 0;
  const chosen = isOfIds ? { selection: { ids: [...ids] }, ids, count: ids.size } : allMatching(verb, list);
  if (await begin({ verb, permanent, ...chosen })) select([]);
}

function allMatching(verb: Verb, list: TaskList): Omit<BulkChange, 'verb' | 'permanent'> {
  const fields = { ...filterOf(list.filter), ...(verb === 'cancel' && { state: list.state }) };
  const matching = Object.keys(fields).length === 0 ? { all: true as const } : (fields as BulkChange['selection']);
  const left = model.tasks(list.state).filter((task) => !isChanging(task));
  const { count, isExact } = model.matching(list, left.length);
  return { selection: matching, ids: new Set(left.map(({ id }) => id)), count, isLowerBound: !isExact };
}

export function redrive({ id, permanent }: { id: string; permanent?: boolean | undefined }): void {
  const selected = { selection: { ids: [id] }, ids: new Set([id]), count: 1 };
  void begin({ verb: 'redrive', ...selected, permanent: permanent ? 1 : 0 });
}

/**
 * Redrives a few selected tasks at once. The user must confirm any other bulk change, and can undo it for {@link UNDO_MS}.
 *
 * @returns whether the bulk change is confirmed
 */
async function begin(change: BulkChange): Promise<boolean> {
  const isFew = 'ids' in change.selection && change.count <= MAX_UNASKED;
  if (change.verb === 'redrive' && isFew && change.permanent === 0) {
    void perform(change, false);
    return true;
  }
  const confirmation = await ask(questionOf(change));
  if (confirmation === undefined) return false;
  pending.peek()?.decide(true);
  void perform({ ...change, ...confirmation }, true);
  return true;
}

async function perform(change: BulkChange, isUndoable: boolean): Promise<void> {
  confirmed.value = [...confirmed.peek(), change];
  const isSent = !isUndoable || (await untilDecided(change));
  if (isSent && pending.peek() === undefined) say(WORDS[change.verb].running);
  const { text, isDone } = isSent ? await resultOf(change) : { text: undoneText(change), isDone: false };
  // Events may come later. A running task is listed until its handler has ended.
  const isGone = ({ id, state }: BoardTask) =>
    change.ids.has(id) && state !== 'running' && verbsOf(state).includes(change.verb);
  if (isSent) model.forget((task) => isDone && isGone(task));
  confirmed.value = confirmed.peek().filter((each) => each !== change);
  if (isSent) model.reload();
  say(text);
}

/** Offers to undo a bulk change for {@link UNDO_MS}. @returns whether it is to be sent */
function untilDecided(change: BulkChange): Promise<boolean> {
  return new Promise((resolve) => {
    const decide = (isSent: boolean) => {
      clearTimeout(timer);
      pending.value = undefined;
      resolve(isSent);
    };
    const timer = setTimeout(() => decide(true), UNDO_MS);
    pending.value = { change, sendAt: performance.now() + UNDO_MS, decide };
    say('');
  });
}

/** Whether a task belongs to a bulk change that is pending or being sent. */
export const isChanging = ({ id }: { id: string }): boolean => confirmed.value.some(({ ids }) => ids.has(id));

function questionOf({ verb, selection, count, isLowerBound, permanent }: BulkChange): Question {
  const { passive, title, kept } = WORDS[verb];
  const deleted = verb === 'purge' ? 'Purged tasks are deleted and cannot be redriven. ' : '';
  const open = 'ids' in selection ? '' : ` Tasks that match by then are ${passive}, too.`;
  return {
    question: `${title} ${isLowerBound ? 'at least ' : ''}${formatTasks(count)}?`,
    warning: verb === 'redrive' ? permanentText(permanent, count) : '',
    consequence: `${deleted}You can undo this for 8 seconds. Leaving this page within that time ${kept}.${open}`,
    paces: verb === 'redrive' && count > MAX_UNASKED ? PACES : [],
    yes: title,
  };
}

function permanentText(permanent: number, count: number): string {
  if (permanent === 0) return '';
  const subject =
    permanent === count && count > 1
      ? 'All failed permanently'
      : permanent === 1
        ? `${count === 1 ? 'It' : '1 of them'} has a permanent error`
        : `${formatCount(permanent)} have permanent errors`;
  return `${subject}: a redrive fails again unless the cause is fixed.`;
}

// Leaving the page cancels the pending bulk change, even if the browser keeps the page in its back/forward cache.
addEventListener('pagehide', () => pending.peek()?.decide(false));

function undoneText(change: BulkChange): string {
  const other = confirmed.peek().find((each) => each !== change);
  const rest = other ? `The ${other.verb} before it is being sent.` : `Nothing was ${WORDS[change.verb].passive}.`;
  return `Undone. ${rest}`;
}

function send({ verb, selection, perSecond }: BulkChange): Promise<BulkResult> {
  if (verb === 'cancel') return client.cancelAll(selection as CancelSelection);
  const letters = selection as LetterSelection;
  if (verb === 'purge') return client.deadLetters.purgeAll(letters);
  return client.deadLetters.redriveAll({ ...letters, ...(perSecond && { per_second: perSecond }) });
}

async function resultOf(change: BulkChange): Promise<{ text: string; isDone: boolean }> {
  const { verb, selection } = change;
  const { done, passive } = WORDS[verb];
  try {
    const { count, remaining } = await send(change);
    if ('ids' in selection && count + remaining === 0) throw new Error(goneText(change));
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

/**
 * Shows a text, and the bulk change that can still be undone. They disappear after a while, unless a bulk change is
 * pending or being sent, or the text `stays` until the next one.
 */
export function say(text: string, stays = false): void {
  clearTimeout(hideTimer);
  const change = pending.peek()?.change;
  said.value = change === undefined ? text : `${text} ${pendingText(change)}`.trim();
  if (stays) return;
  hideTimer = setTimeout(() => {
    if (confirmed.peek().length === 0) said.value = '';
  }, RESULT_MS);
}

/** Says why a change of selected tasks changed none. */
function goneText({ verb, count }: BulkChange): string {
  const these = count === 1 ? 'this task' : 'these tasks';
  return verb === 'cancel' ? `${these} ended before.` : `the service no longer has ${these} among the failed ones.`;
}

function pendingText({ verb, count }: BulkChange): string {
  const { passive, kept } = WORDS[verb];
  return `${formatTasks(count)} will be ${passive} in ${UNDO_MS / 1_000} seconds. Leaving this page ${kept}.`;
}

interface BulkBarProps {
  state: State;
  list: TaskList | undefined;
  ids: readonly string[];
  /** Number of loaded tasks, of which a list that stands still may not show all. */
  listed: number;
  still: StillList;
}

/** Number of tasks, and controls that select tasks, and change the selected ones or all. */
export function BulkBar({ state, list, ids, listed, still }: BulkBarProps) {
  const first = useRef<HTMLButtonElement>(null);
  const verbs = verbsOf(state);
  const { isAll, ids: chosen } = selection.value;
  const matching = list?.isLoaded ? model.matching(list, listed) : { count: 0, isExact: true };
  const count = isAll ? matching.count : chosen.size;
  const shown = isAll ? ids.length : ids.filter((id) => chosen.has(id)).length;
  const isEachShown = shown > 0 && shown === ids.length;
  const warning = state === 'failed' ? permanentText(selectedPermanent(), count) : '';
  return (
    <fieldset
      class={verbs.length > 0 ? 'bulk screen-only row pad' : 'contents'}
      aria-label="Tasks of the list"
      data-hold
    >
      {verbs.length > 0 && (
        <label>
          <input
            type="checkbox"
            checked={isEachShown}
            indeterminate={shown > 0 && !isEachShown}
            onChange={({ currentTarget }) => select(currentTarget.checked ? ids : [])}
          />
          <span class="visually-hidden">Select all shown tasks</span>
        </label>
      )}
      <span class="bulk-count keep small" data-part="list-count">
        {count > 0 ? `${formatCount(count)} selected` : list?.isLoaded && countText(state, listed, matching)}
      </span>
      {matching.count > ids.length && isEachShown && !isAll && (
        <SmallButton
          onClick={() => {
            select([], true);
            first.current?.focus();
          }}
        >
          Select all {formatCount(matching.count)}
        </SmallButton>
      )}
      <SmallButton
        data-part="unseen"
        aria-keyshortcuts="u"
        // Keeps its place while all rows are shown, so that the list does not move.
        style={{ visibility: still.unseen === 0 ? 'hidden' : undefined }}
        onClick={still.show}
      >
        {formatCount(still.unseen)} new – show
      </SmallButton>
      {list !== undefined && matching.count > 0 && verbs.length > 0 && (
        <span class="row push">
          {verbs.map((verb, index) => (
            <SmallButton
              key={verb}
              ref={index === 0 ? first : null}
              data-part={`${verb}-all`}
              // The `r` key clicks the redrive button only if it has `data-redrive-selected`.
              data-redrive-selected={verb === 'redrive' && count > 0 ? '' : undefined}
              onClick={() => void beginSelected(verb, list)}
            >
              {WORDS[verb].title}
              {count === 0 && ` all ${formatCount(matching.count)}`}
            </SmallButton>
          ))}
        </span>
      )}
      {count > 0 && warning !== '' && <p class="notice small">{warning}</p>}
    </fieldset>
  );
}

function countText(state: State, listed: number, { count, isExact }: { count: number; isExact: boolean }): string {
  if (count === 0) return '';
  if (listed < count) return `${formatCount(listed)} of ${isExact ? '' : 'at least '}${formatTasks(count)}`;
  if (isExact) return formatTasks(count);
  return `${state === 'completed' ? 'Newest' : 'At least'} ${formatTasks(count)}`;
}

/** Shows what {@link say} has said, with a button that undoes the pending bulk change. */
export function Toast() {
  const { value: undoable } = pending;
  const button = useRef<HTMLButtonElement>(null);
  useEffect(() => {
    button.current?.focus();
  }, [undoable]);
  return (
    <div class="toast screen-only panel row pad" data-part="toast" hidden={said.value === ''}>
      <p class="grow" role="status" data-part="toast-text">
        {said}
      </p>
      {undoable && (
        <>
          <span class="quiet" aria-hidden="true">
            <Live text={() => `${Math.max(Math.ceil((undoable.sendAt - performance.now()) / 1_000), 0)} s`} />
          </span>
          <SmallButton data-part="undo" ref={button} onClick={() => undoable.decide(false)}>
            Undo
          </SmallButton>
        </>
      )}
    </div>
  );
}

// A selection ends with its list, and a selection of all that match also ends with the filter.
const list = computed(() => {
  const { state, cause, action } = view.value;
  // Failures of several actions may have the same cause.
  return [state, cause, cause && action].join('\n');
});
const filter = computed(() => [view.value.q, view.value.action, view.value.last].join('\n'));
list.subscribe(() => select([]));
filter.subscribe(() => selection.peek().isAll && select([]));

// A task is selected until it can no longer be.
model.version.subscribe(() => {
  const { state } = view.peek();
  const { ids } = selection.peek();
  const left = [...ids].filter((id) => isSelectable(id, state));
  if (left.length < ids.size) select(left);
});

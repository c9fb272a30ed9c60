import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useMemo, useRef } from 'preact/hooks';
import type { Cause } from '../client/dead-letters.ts';
import type { TaskState } from '../client/task-state.ts';
import { addressOf } from './address.ts';
import { formatClock, formatCount, formatTasks } from './amounts.ts';
import { model } from './board.ts';
import type { BoardTask } from './board-task.ts';
import { EmptyState } from './empty-state.tsx';
import {
  beginSelected,
  causes,
  causesError,
  choose,
  isSelected,
  listedTasks,
  matching,
  matchingPermanent,
  redrive,
  selection,
  selectMatching,
  selectOnly,
  shownTasks,
  total,
} from './failed-state.ts';
import { FindBar } from './find-bar.tsx';
import { readPayload } from './json-text.ts';
import { view } from './navigation.ts';
import { SmallButton } from './parts.tsx';
import { findTask, type Submission } from './service.ts';
import { orderText } from './state-columns.ts';
import { type StillList, useRowWindow, useStillList } from './still-list.ts';
import { ListFoot, openRow, Unseen } from './task-list.tsx';
import { isTaken, permanentText } from './undoable.ts';
import { visibleText } from './visible-text.ts';

export interface FailedViewProps {
  onResubmit(submission: Submission): void;
}

/** List of the failed tasks by cause, which the user can redrive, purge, or edit and resubmit. */
export function FailedView({ onResubmit }: FailedViewProps) {
  model.version.value;
  const { q, action, cause, task: inspected } = view.value;
  const host = useRef<HTMLElement>(null);
  const status = useSignal('');
  const tasks = shownTasks();
  const still = useStillList({
    host,
    key: [cause, action, q].join('\n'),
    ids: tasks.map(({ id }) => id),
    isPinned: (id) => id === inspected && model.get(id)?.state === 'failed',
    isHeld: selection.value.ids.size > 0,
  });
  const edit = async (id: string) => {
    try {
      const payload = (await findTask<TaskState>(id))?.payload;
      if (payload === undefined) status.value = 'The service no longer knows this task.';
      else onResubmit(readPayload(payload));
    } catch (error) {
      status.value = `Cannot edit the task: ${(error as Error).message}`;
    }
  };
  // The same element is not rendered again with the list.
  const shownCauses = useMemo(() => <Causes isHeld={still.isHeld} />, [still.isHeld]);
  const count = model.count('failed') ?? total.value;
  const problem = model.problem.value ?? causesError.value;
  // What the user has just redriven or purged leaves the list, although it stands still.
  const ids = still.ids.filter((id) => {
    const task = model.get(id);
    return task !== undefined && !isTaken(task);
  });
  const list = model.list('failed');
  const isEmpty = list?.isLoaded === true && ids.length === 0;
  const isAllTaken = model.tasks('failed').length > 0 && listedTasks().length === 0;
  return (
    <section class="panel failed" data-part="failed" aria-labelledby="failed-heading" ref={host}>
      <h2 class="visually-hidden" id="failed-heading">
        Failed tasks {count > 0 ? formatCount(count) : ''}
      </h2>
      <div class="list-head">
        <FindBar place="failed" />
      </div>
      <p class="notice failed-notice" role="status">
        {problem && `Not up to date: ${problem.message}`}
      </p>
      <div class="failed-columns">
        {total.value > 0 && shownCauses}
        <div class="failed-main" data-hold>
          {ids.length > 0 && <BulkBar ids={ids} list={still} />}
          <p class="failed-status" role="status">
            {status}
          </p>
          <FailedList ids={ids} onEdit={edit} />
          {isEmpty && !isAllTaken && <EmptyState state="failed" listed={listedTasks().length} />}
          {list !== undefined && <ListFoot key={cause} list={list} listed={ids.length} />}
        </div>
      </div>
    </section>
  );
}

/** Causes with counts, of which the user chooses one or all. They stand still with the list. The arrow keys move between them. */
function Causes({ isHeld }: { isHeld: boolean }) {
  const shown = useRef<readonly Cause[]>([]);
  if (!isHeld || causes.value.length === shown.current.length) {
    const order = isHeld ? shown.current.map(keyOf) : [];
    const rank = (cause: Cause) => order.indexOf(keyOf(cause));
    shown.current = isHeld ? [...causes.value].sort((one, other) => rank(one) - rank(other)) : causes.value;
  }
  const { action, cause } = view.value;
  const isChosen = (each: Cause) => each.cause === cause && (each.action ?? '') === action;
  const onKeyDown = (event: KeyboardEvent) => {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step === undefined) return;
    const buttons = [...(event.currentTarget as HTMLElement).querySelectorAll('button')];
    buttons[buttons.indexOf(document.activeElement as HTMLButtonElement) + step]?.focus();
    event.preventDefault();
    event.stopPropagation();
  };
  const all = { text: 'All causes', count: total.value, isChosen: cause === '', onChoose: () => choose() };
  const hasChosen = shown.current.some(isChosen);
  return (
    <div class="reasons" data-hold>
      <h3 class="label" id="reasons-heading">
        Causes
      </h3>
      <ul aria-labelledby="reasons-heading" onKeyDown={onKeyDown}>
        {(shown.current.length > 1 || cause !== '') && <Choice {...all} isTabStop={!hasChosen} />}
        {shown.current.map((each, index) => (
          <Choice
            key={keyOf(each)}
            text={each.cause}
            count={each.count}
            note={each.permanent === each.count ? 'permanent' : undefined}
            details={detailsOf(each)}
            isChosen={isChosen(each)}
            isTabStop={isChosen(each) || (shown.current.length === 1 && cause === '' && index === 0)}
            onChoose={() => (isChosen(each) ? choose() : choose(each))}
          >
            {each.action !== null && <span class="quiet">{visibleText(each.action)}</span>}
          </Choice>
        ))}
      </ul>
    </div>
  );
}

const keyOf = ({ action, cause }: Cause) => JSON.stringify([action, cause]);

/** Times and exact reasons of a cause. */
function detailsOf({ first_at, last_at, reasons }: Cause): string {
  const [first, last] = [first_at, last_at].map((seconds) => formatClock(seconds * 1000, false));
  const exact = reasons.map(({ reason, count }) => `${formatCount(count)} ${visibleText(reason)}`);
  return [`From ${first} to ${last}`, ...exact].join('\n');
}

interface ChoiceProps {
  text: string;
  count: number;
  note?: string | undefined;
  details?: string;
  isChosen: boolean;
  isTabStop: boolean;
  onChoose(): void;
  children?: ComponentChildren;
}

function Choice({ text, count, note, details, isChosen, isTabStop, onChoose, children }: ChoiceProps) {
  return (
    <li>
      <button
        type="button"
        class="reason"
        aria-pressed={isChosen}
        tabIndex={isTabStop ? 0 : -1}
        title={details}
        onClick={onChoose}
      >
        <span class="reason-count">{formatCount(count)}</span> <bdi class="reason-text">{visibleText(text)}</bdi>{' '}
        {children} {note !== undefined && <span class="badge">{note}</span>}
      </button>
    </li>
  );
}

/** Controls that select failed tasks, and redrive or purge the selected ones. */
function BulkBar({ ids, list }: { ids: readonly string[]; list: StillList }) {
  const box = useRef<HTMLInputElement>(null);
  const first = useRef<HTMLButtonElement>(null);
  const { isAll, ids: chosenIds } = selection.value;
  const { q } = view.value;
  const selectedShown = ids.filter(isSelected);
  const count = isAll ? matching.value : chosenIds.size;
  // The causes are not counted by text, so with a text only tasks in the list can be selected.
  const available = q === '' ? Math.max(matching.value, ids.length) : ids.length;
  const permanent = isAll
    ? matchingPermanent.value
    : [...chosenIds.keys()].filter((id) => model.get(id)?.permanent === true).length;
  useEffect(() => {
    if (box.current === null) return;
    box.current.indeterminate = selectedShown.length > 0 && selectedShown.length < ids.length;
  });
  const shownText =
    available > ids.length ? `${formatCount(ids.length)} of ${formatTasks(available)}` : formatTasks(ids.length);
  return (
    <fieldset class="bulk" aria-label="Selected tasks">
      <label class="bulk-all">
        <input
          type="checkbox"
          ref={box}
          checked={selectedShown.length === ids.length}
          onChange={({ currentTarget }) => selectOnly(currentTarget.checked ? ids : [])}
        />
        <span class="visually-hidden">Select all shown tasks</span>
      </label>
      <span class="bulk-count" data-part="selected-count">
        {count > 0 ? `${formatCount(count)} selected` : shownText}
      </span>
      {available > ids.length && !isAll && selectedShown.length === ids.length && (
        <SmallButton
          onClick={() => {
            selectMatching();
            first.current?.focus();
          }}
        >
          Select all {formatCount(available)}
        </SmallButton>
      )}
      <Unseen list={list} />
      <span class="bulk-actions">
        {(['redrive', 'purge'] as const).map((verb) => (
          <button
            key={verb}
            type="button"
            class="button button-small"
            // A button with the `disabled` attribute loses the focus.
            aria-disabled={count === 0}
            {...(verb === 'redrive' && { ref: first })}
            // The `r` key clicks the redrive button only if it has `data-redrive-selected`.
            data-redrive-selected={verb === 'redrive' && count > 0 ? '' : undefined}
            onClick={() => count > 0 && beginSelected(verb)}
          >
            {verb === 'redrive' ? 'Redrive' : 'Purge'}
          </button>
        ))}
      </span>
      {permanent > 0 && <p class="bulk-note">{permanentText(permanent, count)}</p>}
    </fieldset>
  );
}

function FailedList({ ids, onEdit }: { ids: readonly string[]; onEdit(id: string): void }) {
  const list = useRef<HTMLOListElement>(null);
  const anchor = useRef<string | undefined>(undefined);
  const { from, to, above, below } = useRowWindow(ids.length, list);
  /** Selects or deselects a task. A range also contains all tasks back to the previously clicked one. */
  const select = (id: string, isChosen: boolean, isRange: boolean) => {
    const start = isRange && anchor.current !== undefined ? ids.indexOf(anchor.current) : -1;
    const end = ids.indexOf(id);
    const range = start < 0 ? [id] : ids.slice(Math.min(start, end), Math.max(start, end) + 1);
    anchor.current = id;
    const { isAll, ids: earlier } = selection.value;
    const selected = new Set(isAll ? ids : earlier.keys());
    for (const each of range) {
      if (isChosen) selected.add(each);
      else selected.delete(each);
    }
    selectOnly([...selected]);
  };
  return (
    <ol class="failed-list" ref={list}>
      {above > 0 && <li aria-hidden="true" style={{ height: `${above}px` }} />}
      {ids.slice(from, to).map((id) => {
        const task = model.get(id);
        return task && <FailedItem key={id} task={task} onSelect={select} onEdit={onEdit} />;
      })}
      {below > 0 && <li aria-hidden="true" style={{ height: `${below}px` }} />}
    </ol>
  );
}

interface FailedItemProps {
  task: BoardTask;
  onSelect(id: string, isSelected: boolean, isRange: boolean): void;
  onEdit(id: string): void;
}

function FailedItem({ task, onSelect, onEdit }: FailedItemProps) {
  const { id, reason = '', attempts, permanent, endedAtMs } = task;
  const action = visibleText(task.action);
  const isInspected = view.value.task === id;
  const isLeft = task.state === 'failed';
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the link in the row is for the keyboard
    <li
      class="failed-item"
      data-row={id}
      data-selected={isSelected(id) ? '' : undefined}
      data-inspected={isInspected ? '' : undefined}
      onClick={(event) => {
        if ((event.target as Element).closest('button, label') === null) openRow(event, id);
      }}
    >
      <label class="failed-select">
        <input
          type="checkbox"
          data-select
          checked={isSelected(id)}
          onClick={({ currentTarget, shiftKey }) => onSelect(id, currentTarget.checked, shiftKey)}
        />
        <span class="visually-hidden">Select {action}</span>
      </label>
      <a
        class="failed-action"
        href={addressOf({ ...view.value, task: id })}
        data-open
        aria-current={isInspected ? 'true' : undefined}
      >
        {action}
      </a>{' '}
      <p class="failed-reason">
        {permanent && <span class="badge">permanent</span>} <bdi>{visibleText(reason)}</bdi>
      </p>
      <p class="failed-facts quiet">
        <bdi class="order">{orderText(task)}</bdi>{' '}
        <span>{attempts === undefined ? '' : attempts === 1 ? '1 attempt' : `${attempts} attempts`}</span>{' '}
        <span>{isLeft ? endedAtMs !== undefined && formatClock(endedAtMs, false) : `now ${task.state}`}</span>
      </p>
      <span class="failed-actions">
        <SmallButton data-redrive aria-label={`Redrive ${action}`} disabled={!isLeft} onClick={() => redrive(task)}>
          Redrive
        </SmallButton>
        <SmallButton aria-label={`Edit and resubmit ${action}`} onClick={() => onEdit(id)}>
          Edit
        </SmallButton>
      </span>
    </li>
  );
}

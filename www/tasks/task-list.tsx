import { signal } from '@preact/signals';
import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { TaskState } from '../client/task-state.ts';
import { Icon } from '../shared/controls.tsx';
import { addressOf } from './address.ts';
import { formatCount, formatTasks } from './amounts.ts';
import { model } from './board.ts';
import { type BoardTask, isUnfinished, type State } from './board-task.ts';
import { Causes, causesError } from './causes.tsx';
import { now } from './clock.ts';
import { EmptyState } from './empty-state.tsx';
import { FindBar } from './find-bar.tsx';
import { readPayload } from './json-text.ts';
import { MAX_LISTED, PAGE_SIZE, type TaskList } from './model.ts';
import { changeView, opensElsewhere, view } from './navigation.ts';
import { Button, Mark, SmallButton } from './parts.tsx';
import { beginSelected, isSelectable, redrive, select, selectedPermanent, selection, verbsOf } from './selection.ts';
import { findTask, type Submission } from './service.ts';
import { COLUMNS, orderText } from './state-columns.ts';
import { type StillList, useRowWindow, useStillList } from './still-list.ts';
import { TITLES } from './tabs.tsx';
import { FORMS, isTaken, permanentText, say } from './undoable.tsx';
import { dataText, visibleText } from './visible-text.ts';

const isPaused = signal(false);

interface TaskListViewProps {
  state: State;
  onResubmit(submission: Submission): void;
}

/** List of the tasks in one state, which the user can filter, select and change. Failed tasks are listed by cause. */
export function TaskListView({ state, onResubmit }: TaskListViewProps) {
  model.version.value;
  const { q, action, cause, last, task: inspected } = view.value;
  const host = useRef<HTMLElement>(null);
  const key = [state, cause, action, q, last].join('\n');
  // Another list is not paused.
  useEffect(() => {
    isPaused.value = false;
  }, [key]);
  const list = model.list(state);
  const known = model.tasks(state);
  const tasks = known.filter((task) => !isTaken(task));
  const still = useStillList({
    host,
    key,
    ids: tasks.map(({ id }) => id),
    isPinned: (id) => id === inspected && (state !== 'failed' || model.get(id)?.state === state),
    isHeld: selection.value.ids.size > 0,
    isPaused: isPaused.value,
  });
  // What the user has just changed leaves the list, although it stands still.
  const ids = still.ids.filter((id) => {
    const task = model.get(id);
    return task !== undefined && !isTaken(task);
  });
  const isFailed = state === 'failed';
  const isEmpty = list?.isLoaded === true && ids.length === 0;
  const problem = isFailed ? (model.problem.value ?? causesError.value) : undefined;
  // The same element is not rendered again with the list.
  const causes = useMemo(() => <Causes isHeld={still.isHeld} />, [still.isHeld]);
  const selectable = ids.filter((id) => isSelectable(id, state));
  const bar = <BulkBar state={state} list={list} ids={selectable} listed={tasks.length} still={still} />;
  const hasVerbs = verbsOf(state).length > 0;
  return (
    <section
      class={`panel list ${isFailed ? 'failed' : ''}`}
      data-part="list"
      aria-labelledby="list-heading"
      ref={host}
    >
      <h2 class="visually-hidden" id="list-heading">
        {TITLES[state]} tasks
      </h2>
      <div class="list-head row pad">
        <FindBar />
        {!hasVerbs && bar}
        <SmallButton
          data-part="pause"
          onClick={() => {
            isPaused.value = !isPaused.value;
          }}
        >
          <Icon name={isPaused.value ? 'resume' : 'pause'} />
          {isPaused.value ? 'Resume list' : 'Pause list'}
        </SmallButton>
      </div>
      <p class="notice" role="status">
        {problem && `Not up to date: ${problem.message}`}
      </p>
      <div class="failed-columns">
        {isFailed && causes}
        <div class="failed-main">
          {hasVerbs && !(isEmpty && known.length === 0) && bar}
          <TaskTable key={key} state={state} ids={ids} onResubmit={onResubmit} />
          {isEmpty && known.length === 0 && <EmptyState state={state} />}
          {list !== undefined && <ListFoot key={key} list={list} listed={tasks.length} />}
        </div>
      </div>
    </section>
  );
}

interface BulkBarProps {
  state: State;
  list: TaskList | undefined;
  /** Shown tasks that can be selected. */
  ids: readonly string[];
  /** Number of loaded tasks, of which a list that stands still may not show all. */
  listed: number;
  still: StillList;
}

/** Number of tasks, and controls that select tasks, and change the selected ones or all. */
function BulkBar({ state, list, ids, listed, still }: BulkBarProps) {
  const first = useRef<HTMLButtonElement>(null);
  const verbs = verbsOf(state);
  const { isAll, ids: chosen } = selection.value;
  const matching = list?.isLoaded ? model.matching(list, listed) : { count: 0, isExact: true };
  const count = isAll ? matching.count : chosen.size;
  const shown = isAll ? ids.length : ids.filter((id) => chosen.has(id)).length;
  const isEachShown = shown > 0 && shown === ids.length;
  const warning = state === 'failed' ? permanentText(selectedPermanent(), count) : '';
  return (
    <fieldset class={verbs.length > 0 ? 'bulk row pad' : 'bulk-plain'} aria-label="Tasks of the list" data-hold>
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
        class="unseen"
        data-show-unseen
        data-part="unseen"
        aria-keyshortcuts="u"
        data-empty={still.unseen === 0 ? '' : undefined}
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
              onClick={() => beginSelected(verb, list)}
            >
              {FORMS[verb].title}
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

interface TaskTableProps extends TaskListViewProps {
  ids: readonly string[];
}

function TaskTable({ state, ids, onResubmit }: TaskTableProps) {
  const body = useRef<HTMLTableSectionElement>(null);
  const anchor = useRef<string | undefined>(undefined);
  const { from, to, above, below } = useRowWindow(ids.length, body);
  const { value: shown } = view;
  const { isAll, ids: chosen } = selection.value;
  const hasVerbs = verbsOf(state).length > 0;
  /** Selects or deselects a task. A range also contains all tasks back to the previously clicked one. */
  const onSelect = (id: string, isChosen: boolean, isRange: boolean) => {
    const start = isRange && anchor.current !== undefined ? ids.indexOf(anchor.current) : -1;
    const end = ids.indexOf(id);
    const range = start < 0 ? [id] : ids.slice(Math.min(start, end), Math.max(start, end) + 1);
    anchor.current = id;
    const selected = new Set(isAll ? ids : chosen.keys());
    for (const each of range) {
      if (isChosen) selected.add(each);
      else selected.delete(each);
    }
    select([...selected]);
  };
  return (
    <table class="tasks" data-state={state} aria-labelledby="list-heading" aria-rowcount={ids.length + 1}>
      <thead>
        <tr>
          {hasVerbs && <td class="task-select" />}
          <th class="task-name" scope="col">
            Action
          </th>
          <th class="task-data" scope="col">
            Data
          </th>
          {(['detail', 'count', 'time'] as const).map((name, index) => (
            <th key={name} class={`task-${name}`} scope="col">
              {COLUMNS[state].headings[index]}
            </th>
          ))}
          {state === 'failed' && <td class="task-actions" />}
        </tr>
      </thead>
      <tbody data-part="task-rows" data-hold ref={body}>
        <Spacer height={above} />
        {ids.slice(from, to).map((id, index) => {
          const task = model.get(id);
          if (task === undefined) return null;
          return (
            <TaskRow
              key={id}
              task={task}
              state={state}
              index={from + index}
              address={addressOf({ ...shown, task: id })}
              isInspected={id === shown.task}
              isSelected={isAll || chosen.has(id)}
              onSelect={hasVerbs ? onSelect : undefined}
              onResubmit={onResubmit}
            />
          );
        })}
        <Spacer height={below} />
      </tbody>
    </table>
  );
}

/** Row in place of rows that are not rendered. */
function Spacer({ height }: { height: number }) {
  if (height === 0) return null;
  // biome-ignore lint/a11y/noAriaHiddenOnFocusable: no row of this table can get the focus
  return <tr aria-hidden="true" style={{ height: `${height}px` }} />;
}

interface TaskRowProps extends TaskListViewProps {
  task: BoardTask;
  index: number;
  address: string;
  isInspected: boolean;
  isSelected: boolean;
  onSelect: ((id: string, isSelected: boolean, isRange: boolean) => void) | undefined;
}

function TaskRow({ task, state, index, address, isInspected, isSelected, onSelect, onResubmit }: TaskRowProps) {
  const { id } = task;
  const { detail, size, count } = COLUMNS[state];
  const isListed = task.state === state;
  const fraction = isListed && state === 'running' ? task.progress?.fraction : undefined;
  const action = visibleText(task.action);
  return (
    <tr
      class="task-row"
      data-row={id}
      data-state={task.state}
      data-selected={isSelected ? '' : undefined}
      data-inspected={isInspected ? '' : undefined}
      aria-rowindex={index + 2}
      onClick={(event) => {
        if ((event.target as Element).closest('button, label') === null) openRow(event, id);
      }}
    >
      {onSelect !== undefined && (
        <td class="task-select">
          <label>
            <input
              type="checkbox"
              data-select
              checked={isSelected}
              disabled={!isSelectable(id, state)}
              onClick={({ currentTarget, shiftKey }) => onSelect(id, currentTarget.checked, shiftKey)}
            />
            <span class="visually-hidden">Select {action}</span>
          </label>
        </td>
      )}
      <th scope="row" class="task-name">
        <Mark state={task.state} />
        <a
          class="bare"
          href={address}
          data-open
          data-part="action"
          title={task.action.length > 24 ? action : undefined}
          aria-current={isInspected ? 'true' : undefined}
        >
          {action}
        </a>
      </th>
      <td class="task-data quiet">
        <bdi>{dataText(task.payload ?? '')}</bdi>
      </td>
      <td
        class="task-detail"
        style={{ '--progress': fraction }}
        data-repeated={task.state === 'running' && fraction === undefined ? '' : undefined}
      >
        <span class={state === 'failed' ? 'clamp' : undefined}>
          <bdi class="badge truncate quiet">{orderText(task)}</bdi>{' '}
          {task.permanent && <span class="badge down">permanent</span>}{' '}
          <bdi data-part="detail">{isListed ? detail(task) : describeOther(task, state)}</bdi>{' '}
          <span class="small quiet">{isListed ? size?.(task) : ''}</span>
        </span>
      </td>
      <td class="task-count quiet">{isListed ? count(task) : ''}</td>
      <td class="task-time quiet" data-part="time">
        {isListed && <TaskTime task={task} state={state} />}
      </td>
      {state === 'failed' && (
        <td class="task-actions">
          <SmallButton data-redrive aria-label={`Redrive ${action}`} disabled={!isListed} onClick={() => redrive(task)}>
            Redrive
          </SmallButton>{' '}
          <SmallButton aria-label={`Edit and resubmit ${action}`} onClick={() => void edit(id, onResubmit)}>
            Edit
          </SmallButton>
        </td>
      )}
    </tr>
  );
}

/** Age of a task, or countdown to its next attempt. */
function TaskTime({ task, state }: { task: BoardTask; state: State }) {
  const { time } = COLUMNS[state];
  return <>{time(task, isUnfinished(state) ? now.value : 0)}</>;
}

async function edit(id: string, onResubmit: TaskListViewProps['onResubmit']): Promise<void> {
  try {
    const payload = (await findTask<TaskState>(id))?.payload;
    if (payload === undefined) say('The service no longer knows this task.');
    else onResubmit(readPayload(payload));
  } catch (error) {
    say(`Cannot edit the task: ${(error as Error).message}`);
  }
}

/** Opens the task of a row, unless the user opens it in another tab or selects text. */
function openRow(event: MouseEvent, task: string): void {
  if (opensElsewhere(event) || getSelection()?.isCollapsed === false) return;
  event.preventDefault();
  changeView({ task });
}

/** Button that loads the next page, and what has come of it. */
function ListFoot({ list, listed }: { list: TaskList; listed: number }) {
  const [said, say] = useState('');
  const [isLoading, setLoading] = useState(false);
  const load = async () => {
    setLoading(true);
    try {
      await model.loadMore(list);
      say('');
    } catch (error) {
      say((error as Error).message);
    }
    setLoading(false);
  };
  return (
    <div class="list-foot row pad">
      {list.next !== null && listed < MAX_LISTED && (
        <Button disabled={isLoading} onClick={load}>
          {isUnfinished(list.state) ? 'More tasks' : 'Older tasks'}
        </Button>
      )}{' '}
      <p class="quiet" role="status" data-part="older-status">
        {said || (list.next === null && listed > PAGE_SIZE ? 'These are all.' : '')}
      </p>
    </div>
  );
}

function describeOther(task: BoardTask, state: State): string {
  return state === 'running' && task.state === 'queued' ? 'waits for a thread' : `now ${task.state}`;
}

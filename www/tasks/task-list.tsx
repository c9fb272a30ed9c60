import { useEffect, useMemo, useRef, useState } from 'preact/hooks';
import { keysOf } from '../shared/keys-of.ts';
import { addressOf } from './address.ts';
import { model } from './board.ts';
import { type BoardTask, isUnfinished, type State } from './board-task.ts';
import { BulkBar, isChanging, isSelectable, redrive, say, select, selection, verbsOf } from './bulk-changes.tsx';
import { Causes, causesProblem } from './causes.tsx';
import { EmptyState } from './empty-state.tsx';
import { FindBar } from './find-bar.tsx';
import { readPayload } from './json-text.ts';
import { MAX_LISTED, PAGE_SIZE, type TaskList } from './model.ts';
import { changeView, opensElsewhere, view } from './navigation.ts';
import { Button, Icon, Live, Mark, SmallButton, titleOf } from './parts.tsx';
import { client, found } from './service.ts';
import { COLUMNS, orderText } from './state-columns.ts';
import { useRowWindow, useStillList } from './still-list.ts';
import { openForm } from './submit-form.tsx';
import { dataText, visibleText } from './texts.ts';

/** List of the tasks in one state, which the user can filter, select and change. Failed tasks are listed by cause. */
export function TaskListView({ state }: { state: State }) {
  model.version.value;
  const { q, action, cause, last, task: inspected } = view.value;
  const host = useRef<HTMLElement>(null);
  const key = [state, cause, action, q, last].join('\n');
  const [pausedList, pause] = useState('');
  const isPaused = pausedList === key;
  // A pause ends with its list.
  useEffect(() => pause(''), [key]);
  const list = model.list(state);
  const known = model.tasks(state);
  const tasks = known.filter((task) => !isChanging(task));
  const still = useStillList({
    host,
    key,
    ids: tasks.map(({ id }) => id),
    isPinned: (id) => id === inspected && (state !== 'failed' || model.get(id)?.state === state),
    isHeld: selection.value.ids.size > 0,
    isPaused,
  });
  // What the user has just changed leaves the list, although it stands still.
  const ids = still.ids.filter((id) => {
    const task = model.get(id);
    return task !== undefined && !isChanging(task);
  });
  const isFailed = state === 'failed';
  const isEmpty = list?.isLoaded === true && ids.length === 0 && known.length === 0;
  const { message = '' } = model.problem.value ?? {};
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
        {titleOf(state)} tasks
      </h2>
      <div class="list-head screen-only row pad">
        <FindBar />
        {!hasVerbs && bar}
        <SmallButton data-part="pause" onClick={() => pause(isPaused ? '' : key)}>
          <Icon name={isPaused ? 'resume' : 'pause'} />
          {isPaused ? 'Resume list' : 'Pause list'}
        </SmallButton>
      </div>
      <output class="notice">{isFailed && (message ? `Not up to date: ${message}` : causesProblem)}</output>
      <div class="failed-columns">
        {isFailed && causes}
        <div>
          {hasVerbs && !isEmpty && bar}
          <TaskTable key={key} state={state} ids={ids} />
          {isEmpty && <EmptyState state={state} />}
          {list !== undefined && <ListFoot key={key} list={list} next={list.next} listed={tasks.length} />}
        </div>
      </div>
    </section>
  );
}

/** Columns in the order of their headings, with their widths in the fixed layout. Columns without a width share the rest. */
const WIDTHS = { name: 'clamp(8rem, 20cqi, 12.5rem)', data: '', detail: '', count: '6.5rem', time: '8.5rem' };

function TaskTable({ state, ids }: { state: State; ids: readonly string[] }) {
  const body = useRef<HTMLTableSectionElement>(null);
  const anchor = useRef<string | undefined>(undefined);
  const { from, to, above, below } = useRowWindow(ids.length, body);
  const hasVerbs = verbsOf(state).length > 0;
  /** Selects or deselects a task. A range also contains all tasks back to the previously clicked one. */
  const onSelect = (id: string, isChosen: boolean, isRange: boolean) => {
    const start = isRange && anchor.current !== undefined ? ids.indexOf(anchor.current) : -1;
    const end = ids.indexOf(id);
    const range = start < 0 ? [id] : ids.slice(Math.min(start, end), Math.max(start, end) + 1);
    anchor.current = id;
    const selected = new Set(selection.value.isAll ? ids : selection.value.ids);
    for (const each of range) {
      if (isChosen) selected.add(each);
      else selected.delete(each);
    }
    select([...selected]);
  };
  return (
    <table class="tasks" data-state={state} aria-labelledby="list-heading" aria-rowcount={ids.length + 1}>
      <thead class="quiet small">
        <tr>
          {hasVerbs && <td style={{ width: '3.25rem' }} />}
          {keysOf(WIDTHS).map((name, index) => (
            <th key={name} class={`task-${name}`} style={{ width: WIDTHS[name] }} scope="col">
              {['Action', 'Data', ...COLUMNS[state].headings][index]}
            </th>
          ))}
          {state === 'failed' && <td class="screen-only" style={{ width: '10rem' }} />}
        </tr>
      </thead>
      <tbody data-part="task-rows" data-hold ref={body}>
        <Spacer height={above} />
        {ids.slice(from, to).map((id, index) => {
          const task = model.get(id);
          // Without `onSelect`, which is new each time, a row is rendered again only if its task changes.
          const select = hasVerbs ? onSelect : undefined;
          return task && <TaskRow key={id} task={task} state={state} index={from + index} onSelect={select} />;
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

interface TaskRowProps {
  task: BoardTask;
  state: State;
  index: number;
  /** Undefined in a list without a verb for selected tasks. */
  onSelect: ((id: string, isSelected: boolean, isRange: boolean) => void) | undefined;
}

function TaskRow({ task, state, index, onSelect }: TaskRowProps) {
  const { id } = task;
  const isInspected = id === view.value.task;
  const isSelected = selection.value.isAll || selection.value.ids.has(id);
  const { detail, size, count, time } = COLUMNS[state];
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
      <th scope="row" class="task-name strong">
        <Mark state={task.state} />
        <a
          class="bare"
          href={addressOf({ ...view.value, task: id })}
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
        class={task.state === 'retrying' ? 'task-detail toned' : 'task-detail'}
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
        {isListed && (isUnfinished(state) ? <Live text={(nowMs) => time(task, nowMs)} /> : time(task, 0))}
      </td>
      {state === 'failed' && (
        <td class="task-actions screen-only">
          <SmallButton data-redrive aria-label={`Redrive ${action}`} disabled={!isListed} onClick={() => redrive(task)}>
            Redrive
          </SmallButton>{' '}
          <SmallButton aria-label={`Edit and resubmit ${action}`} onClick={() => void edit(id)}>
            Edit
          </SmallButton>
        </td>
      )}
    </tr>
  );
}

async function edit(id: string): Promise<void> {
  try {
    const payload = (await found(client.task(id).get()))?.payload;
    if (payload === undefined) say('The service no longer knows this task.');
    else openForm(readPayload(payload));
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

interface ListFootProps {
  list: TaskList;
  /** `next` of the list. A property of its own, because a component is rendered again only for other properties. */
  next: string | null;
  listed: number;
}

function ListFoot({ list, next, listed }: ListFootProps) {
  const [isLoading, setLoading] = useState(false);
  const load = async () => {
    setLoading(true);
    await model.loadMore(list).catch((error: Error) => say(`Cannot list more tasks: ${error.message}`));
    setLoading(false);
  };
  return (
    <div class="list-foot screen-only row pad">
      {next !== null && listed < MAX_LISTED && (
        <Button disabled={isLoading} onClick={load}>
          {isUnfinished(list.state) ? 'More tasks' : 'Older tasks'}
        </Button>
      )}{' '}
      <p class="quiet" role="status" data-part="older-status">
        {next === null && listed > PAGE_SIZE && 'These are all.'}
      </p>
    </div>
  );
}

function describeOther(task: BoardTask, state: State): string {
  return state === 'running' && task.state === 'queued' ? 'waits for a thread' : `now ${task.state}`;
}

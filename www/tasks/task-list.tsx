import { signal } from '@preact/signals';
import { useEffect, useRef, useState } from 'preact/hooks';
import { addressOf } from './address.ts';
import { formatCount, formatTasks } from './amounts.ts';
import { model } from './board.ts';
import { PAGE_SIZE } from './board-api.ts';
import { type BoardTask, isUnfinished } from './board-task.ts';
import { now } from './clock.ts';
import { EmptyState } from './empty-state.tsx';
import { FindBar } from './find-bar.tsx';
import { holdsText } from './find-text.ts';
import { MAX_LISTED, type TaskList } from './model.ts';
import { changeView, opensElsewhere, view } from './navigation.ts';
import { Button, Mark, SmallButton } from './parts.tsx';
import { COLUMNS, type ListedState, orderText } from './state-columns.ts';
import { type StillList, useRowWindow, useStillList } from './still-list.ts';
import { dataText } from './summary-text.ts';
import { TITLES } from './tabs.tsx';
import { visibleText } from './visible-text.ts';

const isPaused = signal(false);

/** List of the tasks in one state, with filters and a button that loads older tasks. */
export function TaskListView({ state }: { state: ListedState }) {
  model.version.value;
  const { q, action, task: inspected } = view.value;
  const host = useRef<HTMLElement>(null);
  // Another list is not paused.
  useEffect(() => {
    isPaused.value = false;
  }, [state, action]);
  const list = model.list(state);
  const listed = model.tasks(state);
  const tasks = q === '' ? listed : listed.filter((task) => holdsText(textsOf(task), q));
  const still = useStillList({
    host,
    key: [state, action, q].join('\n'),
    ids: tasks.map(({ id }) => id),
    isPinned: (id) => id === inspected,
    isHeld: isPaused.value,
  });
  const isEmpty = still.ids.length === 0;
  return (
    <section
      class="panel list"
      data-part="list"
      aria-labelledby="list-heading"
      data-paused={isPaused.value ? '' : undefined}
      ref={host}
    >
      <h2 class="visually-hidden" id="list-heading">
        {TITLES[state]} tasks
      </h2>
      <div class="list-head">
        <FindBar place="list" />
        <p class="list-count quiet" data-part="list-count">
          {countText(state, tasks.length, listed.length)}
        </p>
        <Unseen list={still} />
        <SmallButton
          data-part="pause"
          onClick={() => {
            isPaused.value = !isPaused.value;
          }}
        >
          <span class="pause-mark" aria-hidden="true" />
          {isPaused.value ? 'Resume list' : 'Pause list'}
        </SmallButton>
      </div>
      <TaskTable state={state} ids={still.ids} />
      {isEmpty && list?.isLoaded && <EmptyState state={state} listed={listed.length} />}
      {list !== undefined && <ListFoot key={state + action} list={list} listed={listed.length} />}
    </section>
  );
}

/** Says how many tasks a list does not show because it stays still, and shows them on request. */
export function Unseen({ list: { unseen, show } }: { list: StillList }) {
  return (
    <SmallButton
      class="unseen"
      data-hold
      data-show-unseen
      data-part="unseen"
      aria-keyshortcuts="u"
      data-empty={unseen === 0 ? '' : undefined}
      onClick={show}
    >
      {formatCount(unseen)} new – show
    </SmallButton>
  );
}

function TaskTable({ state, ids }: { state: ListedState; ids: readonly string[] }) {
  const body = useRef<HTMLTableSectionElement>(null);
  const { from, to, above, below } = useRowWindow(ids.length, body);
  const { value: shown } = view;
  return (
    <table class="tasks" data-state={state} aria-labelledby="list-heading" aria-rowcount={ids.length + 1}>
      <thead>
        <tr>
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
            />
          );
        })}
        <Spacer height={below} />
      </tbody>
    </table>
  );
}

function Spacer({ height }: { height: number }) {
  if (height <= 0) return null;
  return (
    // biome-ignore lint/a11y/noAriaHiddenOnFocusable: no row of this table can get the focus
    <tr aria-hidden="true">
      <td colSpan={5} style={{ height: `${height}px`, padding: 0 }} />
    </tr>
  );
}

interface TaskRowProps {
  task: BoardTask;
  state: ListedState;
  index: number;
  address: string;
  isInspected: boolean;
}

function TaskRow({ task, state, index, address, isInspected }: TaskRowProps) {
  const { detail, size, count } = COLUMNS[state];
  const isListed = task.state === state;
  const fraction = isListed && state === 'running' ? task.progress?.fraction : undefined;
  const action = visibleText(task.action);
  return (
    <tr
      class="task-row"
      data-row={task.id}
      data-state={task.state}
      data-inspected={isInspected ? '' : undefined}
      aria-rowindex={index + 2}
      onClick={(event) => openRow(event, task.id)}
    >
      <th scope="row" class="task-name">
        <Mark state={task.state} />
        <a
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
        <bdi class="order quiet">{orderText(task)}</bdi>{' '}
        <bdi data-part="detail">{isListed ? detail(task) : describeOther(task, state)}</bdi>{' '}
        <span class="task-size quiet">{isListed ? size(task) : ''}</span>
      </td>
      <td class="task-count quiet">{isListed ? count(task) : ''}</td>
      <td class="task-time quiet" data-part="time">
        {isListed && <TaskTime task={task} state={state} />}
      </td>
    </tr>
  );
}

/** Age of a task, or countdown to its next attempt. */
function TaskTime({ task, state }: { task: BoardTask; state: ListedState }) {
  const { time } = COLUMNS[state];
  return <>{time(task, state === 'completed' ? 0 : now.value)}</>;
}

/** Opens the task of a row, unless the user opens it in another tab or selects text. */
export function openRow(event: MouseEvent, task: string): void {
  if (opensElsewhere(event) || getSelection()?.isCollapsed === false) return;
  event.preventDefault();
  changeView({ task });
}

/** Button that loads older tasks, and what has come of it. */
export function ListFoot({ list, listed }: { list: TaskList; listed: number }) {
  const [said, say] = useState('');
  const [isLoading, setLoading] = useState(false);
  const hasPages = !isUnfinished(list.state);
  const isOffered = hasPages && list.more && listed < MAX_LISTED;
  const load = async () => {
    setLoading(true);
    try {
      await model.loadOlder(list);
      say('');
    } catch (error) {
      say((error as Error).message);
    }
    setLoading(false);
  };
  const isAll = hasPages && !list.more && listed > PAGE_SIZE;
  return (
    <div class="list-foot">
      {isOffered && (
        <Button disabled={isLoading} onClick={load}>
          Older tasks
        </Button>
      )}{' '}
      <p class="quiet" role="status" data-part="older-status">
        {said || (isAll ? 'These are all.' : '')}
      </p>
    </div>
  );
}

function countText(state: ListedState, found: number, listed: number): string {
  const total = model.count(state) ?? 0;
  const isWhole = state === 'completed' ? !model.list(state)?.more : listed >= total || view.value.action !== '';
  if (found < listed) return `${formatCount(found)} of ${formatCount(listed)}`;
  if (isWhole) return listed === 0 ? '' : formatTasks(listed);
  return state === 'completed' ? `Newest ${formatTasks(listed)}` : `${formatCount(listed)} of ${formatCount(total)}`;
}

function describeOther(task: BoardTask, state: ListedState): string {
  return state === 'running' && task.state === 'queued' ? 'waits for a thread' : `now ${task.state}`;
}

function textsOf({ id, action, payload, result, reason }: BoardTask): (string | null | undefined)[] {
  return [id, action, payload, result, reason];
}

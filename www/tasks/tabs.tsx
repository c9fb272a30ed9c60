import type { View } from './address.ts';
import { addressOf } from './address.ts';
import { formatCount, formatMinute } from './amounts.ts';
import { history, model } from './board.ts';
import { STATES, type State } from './board-task.ts';
import { followLink, view } from './navigation.ts';

const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

export const TITLES: Readonly<Record<State | View['page'], string>> = {
  scheduled: 'Scheduled',
  queued: 'Queued',
  limited: 'Limited',
  running: 'Running',
  retrying: 'Retrying',
  completed: 'Completed',
  failed: 'Failed',
  tasks: 'Tasks',
  schedules: 'Schedules',
  limits: 'Limits',
};

/** Links to the lists of tasks in each state, with the numbers of tasks. */
export function Tabs() {
  const { page, state: shown } = view.value;
  return STATES.map((state) => (
    <a
      key={state}
      class="tab"
      href={addressOf({ state })}
      data-state={state}
      aria-current={page === 'tasks' && state === shown ? 'page' : undefined}
      onClick={followLink}
    >
      <span class="mark" data-state={state} aria-hidden="true" />
      <span class="tab-name">{TITLES[state]}</span>{' '}
      <span class="tab-count keep" data-part={`count-${state}`}>
        {countText(state)}
      </span>
    </a>
  ));
}

/** Links to the pages of the board. */
export function Pages() {
  return (['tasks', 'schedules', 'limits'] as const).map((page) => (
    <a
      key={page}
      class="page"
      href={addressOf({ page })}
      data-page={page}
      aria-current={page === view.value.page ? 'page' : undefined}
      onClick={followLink}
    >
      {TITLES[page]}
    </a>
  ));
}

/** Returns the number of tasks in a state. Where completed tasks of before the service's start are listed, its start follows. */
function countText(state: State): string {
  model.version.value;
  const count = model.count(state);
  if (count === undefined) return '';
  const text = count < 100_000 ? formatCount(count) : compact.format(count);
  const start = history.value.seconds.starts.at(-1);
  const isOlderListed = state === 'completed' && model.tasks(state).length > count;
  return isOlderListed && start !== undefined ? `${text} since ${formatMinute(start * 1_000)}` : text;
}

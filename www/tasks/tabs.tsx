import type { View } from './address.ts';
import { addressOf } from './address.ts';
import { formatCount } from './amounts.ts';
import { model } from './board.ts';
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
      <span class="tab-count" data-part={`count-${state}`}>
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

/** Returns the number of tasks in a state. In `120+`, tasks completed before the service's start are not counted. */
function countText(state: State): string {
  model.version.value;
  const count = model.count(state);
  if (count === undefined) return '';
  const listed = state === 'completed' ? model.tasks(state).length : 0;
  const minimum = Math.max(count, listed);
  const text = minimum < 100_000 ? formatCount(minimum) : compact.format(minimum);
  return minimum > count || (state === 'completed' && model.list(state)?.more) ? `${text}+` : text;
}

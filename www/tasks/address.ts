import { STATES, type State } from './board-task.ts';

export interface View {
  page: 'tasks' | 'schedules' | 'limits';
  state: State;
  q: string;
  action: string;
  /** Cause of the listed failed tasks, or an empty string. */
  cause: string;
  /** Id of the task in the inspector. Undefined if the inspector is closed. */
  task: string | undefined;
}

const DEFAULT: View = { page: 'tasks', state: 'completed', q: '', action: '', cause: '', task: undefined };

const PAGES = ['schedules', 'limits'] as const;

/** Returns the view of an address's query, such as `?state=failed`. */
export function readView(search: string): View {
  const query = new URLSearchParams(search);
  const state = STATES.find((each) => each === query.get('state')) ?? DEFAULT.state;
  const page = PAGES.find((each) => each === query.get('view')) ?? DEFAULT.page;
  const [q = '', action = '', cause = '', task] = ['q', 'action', 'cause', 'task'].map((name) => query.get(name) ?? '');
  return { page, state, q, action, cause, task: task || undefined };
}

/** Returns the path and query of a view, without fields that have their default value. */
export function addressOf({ page = DEFAULT.page, ...view }: Partial<View>): string {
  const fields = (Object.entries(view) as [string, string][]).filter(
    ([name, value]) => value && value !== DEFAULT[name as keyof View],
  );
  if (page !== DEFAULT.page) fields.unshift(['view', page]);
  return fields.length === 0 ? '/' : `/?${new URLSearchParams(fields)}`;
}

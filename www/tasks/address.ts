import type { TaskFilter } from '../client/dead-letters.ts';
import { keysOf } from '../shared/keys-of.ts';
import { STATES, type State } from './board-task.ts';

/** Time ranges of the charts, each with its length, that of a period in the charts, and of one in the table, in seconds. */
export const RANGES = {
  '15m': { label: '15 minutes', short: '15 min', seconds: 900, from: 'seconds', period: 5, row: 60 },
  '1h': { label: 'hour', short: '1 h', seconds: 3_600, from: 'minutes', period: 60, row: 300 },
  '24h': { label: '24 hours', short: '24 h', seconds: 86_400, from: 'minutes', period: 60, row: 3_600 },
} as const;

export const MAX_FIND_LENGTH = 200;
export const PAGES = ['tasks', 'schedules', 'limits'] as const;

/** Times until now of which a list shows the tasks, in seconds. */
export const SPANS = { '10m': 600, '1h': 3_600, '24h': 86_400 } as const;

export interface View {
  page: (typeof PAGES)[number];
  state: State;
  q: string;
  action: string;
  /** Cause of the listed failed tasks, or an empty string. */
  cause: string;
  /** Time in which the listed tasks were accepted or have failed, or an empty string for any. */
  last: keyof typeof SPANS | '';
  /** Id of the task in the inspector. Undefined if the inspector is closed. */
  task: string | undefined;
  range: keyof typeof RANGES;
}

const DEFAULT: View = {
  ...{ page: 'tasks', state: 'completed', q: '', action: '', cause: '', last: '', task: undefined, range: '15m' },
};

/** Returns the view of an address's query, such as `?state=failed`. */
export function readView(search: string): View {
  const query = new URLSearchParams(search);
  const state = STATES.find((each) => each === query.get('state')) ?? DEFAULT.state;
  const page = PAGES.find((each) => each === query.get('view')) ?? DEFAULT.page;
  const [q = '', action = '', cause = '', task] = ['q', 'action', 'cause', 'task'].map((name) => query.get(name) ?? '');
  const last = keysOf(SPANS).find((each) => each === query.get('last')) ?? DEFAULT.last;
  const range = keysOf(RANGES).find((each) => each === query.get('range')) ?? DEFAULT.range;
  return { page, state, q: q.slice(0, MAX_FIND_LENGTH), action, cause, last, task: task || undefined, range };
}

/** Returns the path and query of a view, without fields that have their default value. */
export function addressOf({ page = DEFAULT.page, ...view }: Partial<View>): string {
  const fields = (Object.entries(view) as [string, string][]).filter(
    ([name, value]) => value && value !== DEFAULT[name as keyof View],
  );
  if (page !== DEFAULT.page) fields.unshift(['view', page]);
  return fields.length === 0 ? '/' : `/?${new URLSearchParams(fields)}`;
}

/** Fields of a view that select the tasks of a list. Empty texts select all tasks. */
export type ListFilter = Pick<View, 'q' | 'action' | 'cause' | 'last'>;

/** Fields of a filter that `Find` takes as `name:value`. */
const FIELDS = { key: 'limit_key', schedule: 'schedule', id: 'id' } as const;
const FIELD = /(?:^|\s)(key|schedule|id(?=:[0-9a-fA-F-]{1,36}(?:\s|$))):("[^"]*"|\S+)/g;
const ID_START = /^[0-9a-f]{8}(-[0-9a-f-]*)?$/i;

export const isFiltered = ({ q, action, cause, last }: ListFilter): boolean =>
  [q, action, cause, last].some((field) => field !== '');

/** Whether the page cannot tell which tasks of a state match, because it does not have their whole data. */
export const isSearched = ({ q, last }: Pick<ListFilter, 'q' | 'last'>): boolean => q !== '' || last !== '';

/** Returns the filter as the service takes it. `key:`, `schedule:` and `id:` in the text select by these fields. */
export function filterOf({ q, action, cause, last }: ListFilter, nowMs = Date.now()): TaskFilter & { cause?: string } {
  const filter: TaskFilter & { cause?: string } = {};
  const text = q
    .replaceAll(FIELD, (_, name: keyof typeof FIELDS, value: string) => {
      filter[FIELDS[name]] = value.replaceAll('"', '');
      return '';
    })
    .trim();
  if (ID_START.test(text)) filter.id = text;
  else if (text !== '') filter.text = text;
  if (action !== '') filter.action = action;
  if (cause !== '') filter.cause = cause;
  if (last !== '') filter.since = Math.floor(nowMs / 1_000) - SPANS[last];
  return filter;
}

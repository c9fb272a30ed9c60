import { STATES, type State } from './board-task.ts';

export interface View {
  page: 'tasks' | 'schedules' | 'limits';
  state: State;
  q: string;
  action: string;
  /** Id of the task in the inspector. Undefined if the inspector is closed. */
  task: string | undefined;
}

const DEFAULT: View = { page: 'tasks', state: 'completed', q: '', action: '', task: undefined };

const PAGES = ['schedules', 'limits'] as const;

/** Current view of the page, stored in the URL's query so that links and the browser's history restore it. */
export class ViewState {
  readonly #listeners = new Set<(view: View) => void>();
  #view = readView(location.search);

  constructor() {
    addEventListener('popstate', () => this.#show(readView(location.search)));
  }

  get view(): View {
    return this.#view;
  }

  /** Changes the view. @param history whether to add a browser history entry or to replace the current entry */
  change(fields: Partial<View>, history: 'push' | 'replace' = 'push'): void {
    const view = { ...this.#view, ...fields };
    const address = addressOf(view);
    if (address === addressOf(this.#view)) return;
    if (history === 'push') window.history.pushState(null, '', address);
    else window.history.replaceState(null, '', address);
    this.#show(view);
  }

  /** Shows the view of an address of this page. */
  open(address: string): void {
    this.change(readView(new URL(address, location.href).search));
  }

  /** Calls `listener` after each change of the view. @returns a function that unsubscribes */
  subscribe(listener: (view: View) => void): () => void {
    this.#listeners.add(listener);
    return () => this.#listeners.delete(listener);
  }

  #show(view: View): void {
    this.#view = view;
    for (const listener of this.#listeners) listener(view);
  }
}

export function readView(search: string): View {
  const query = new URLSearchParams(search);
  const state = STATES.find((each) => each === query.get('state')) ?? DEFAULT.state;
  const page = PAGES.find((each) => each === query.get('view')) ?? DEFAULT.page;
  const [q, action, task] = ['q', 'action', 'task'].map((name) => query.get(name) ?? '') as [string, string, string];
  return { page, state, q, action, task: task || undefined };
}

/** Returns the path and query of a view, without fields that have their default value. */
export function addressOf({ page = DEFAULT.page, ...view }: Partial<View>): string {
  const fields = (Object.entries(view) as [string, string][]).filter(
    ([name, value]) => value && value !== DEFAULT[name as keyof View],
  );
  if (page !== DEFAULT.page) fields.unshift(['view', page]);
  return fields.length === 0 ? '/' : `/?${new URLSearchParams(fields)}`;
}

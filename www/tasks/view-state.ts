import { STATES, type State } from './board-task.ts';

/** What the board shows. */
export interface View {
  /** State whose tab is open. */
  state: State;
  /** Text to find. Empty if all tasks are shown. */
  q: string;
  /** Action whose tasks are shown. Empty for every action. */
  action: string;
  /** Id of the task in the inspector. Undefined if the inspector is closed. */
  task: string | undefined;
}

const DEFAULT: View = { state: 'completed', q: '', action: '', task: undefined };

/** The current {@link View}. The page's address contains its fields, except those with their default value. */
export class ViewState {
  readonly #listeners = new Set<(view: View) => void>();
  #view = readView(location.search);

  constructor() {
    addEventListener('popstate', () => this.#show(readView(location.search)));
  }

  get view(): View {
    return this.#view;
  }

  /**
   * Changes fields of the view, and tells the subscribers.
   *
   * @param history `push` adds an entry to the browser's history; `replace` replaces the current entry
   */
  change(fields: Partial<View>, history: 'push' | 'replace' = 'push'): void {
    const view = { ...this.#view, ...fields };
    const address = addressOf(view);
    if (address === addressOf(this.#view)) return;
    if (history === 'push') window.history.pushState(null, '', address);
    else window.history.replaceState(null, '', address);
    this.#show(view);
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

/** Returns the view that the query of an address describes. */
export function readView(search: string): View {
  const query = new URLSearchParams(search);
  const state = STATES.find((each) => each === query.get('state')) ?? DEFAULT.state;
  return { state, q: query.get('q') ?? '', action: query.get('action') ?? '', task: query.get('task') || undefined };
}

/** Returns the address of a view: `/`, followed by the fields that do not have their default value. */
export function addressOf(view: View): string {
  const fields = Object.entries(view).filter(([name, value]) => value && value !== DEFAULT[name as keyof View]);
  return fields.length === 0 ? '/' : `/?${new URLSearchParams(fields)}`;
}

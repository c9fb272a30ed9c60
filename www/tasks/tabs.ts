import { part } from '../shared/dom.ts';
import { formatCount } from './amounts.ts';
import { STATES, type State } from './board-task.ts';
import type { Store } from './store.ts';
import type { ViewState } from './view-state.ts';

const compact = new Intl.NumberFormat('en-US', { notation: 'compact', maximumFractionDigits: 1 });

const TITLES: Record<State, string> = {
  scheduled: 'Scheduled',
  queued: 'Queued',
  limited: 'Limited',
  running: 'Running',
  retrying: 'Retrying',
  completed: 'Completed',
  failed: 'Failed',
};

const PAGE_TITLES = { schedules: 'Schedules', limits: 'Limits' };

/** Tabs of the states, and links to the pages of the board. */
export class Tabs {
  readonly #tabs = part(document, 'tabs', HTMLElement);
  readonly #store: Store;
  readonly #viewState: ViewState;

  constructor(store: Store, viewState: ViewState) {
    this.#store = store;
    this.#viewState = viewState;
    this.#tabs.addEventListener('click', (event) => {
      const tab = (event.target as Element).closest<HTMLElement>('[data-state]');
      const opensElsewhere = event.ctrlKey || event.metaKey || event.shiftKey;
      const state = STATES.find((each) => each === tab?.closest('a')?.dataset.state);
      if (state === undefined || opensElsewhere) return;
      event.preventDefault();
      this.select(state);
    });
    viewState.subscribe(() => this.#showState());
    store.subscribe(() => this.#showCounts());
    this.#showState();
  }

  /** Opens the list of a state, without filters and with the inspector closed. */
  select(state: State): void {
    this.#viewState.change({ page: 'tasks', state, q: '', action: '', task: undefined });
  }

  #showState(): void {
    const { page, state } = this.#viewState.view;
    markCurrent(this.#tabs, (link) => page === 'tasks' && link.dataset.state === state);
    markCurrent(part(document, 'pages', HTMLElement), (link) => link.dataset.page === page);
    part(document, 'desk', HTMLElement).dataset.page = page;
    document.title = `${page === 'tasks' ? TITLES[state] : PAGE_TITLES[page]} · Tasks`;
    part(document, 'list', HTMLElement).hidden = state === 'failed';
    part(document, 'failed', HTMLElement).hidden = state !== 'failed';
    if (state !== 'failed') part(document, 'list-heading', HTMLElement).textContent = `${TITLES[state]} tasks`;
  }

  #showCounts(): void {
    for (const state of STATES) {
      const element = part(this.#tabs, `count-${state}`, HTMLElement);
      const text = this.#count(state);
      if (element.textContent !== text) element.textContent = text;
    }
  }

  /** Returns the number of tasks in a state. In `120+`, tasks completed before the service's start are not counted. */
  #count(state: State): string {
    const count = this.#store.count(state);
    if (count === undefined) return '';
    const listed = state === 'completed' ? this.#store.tasks(state).length : 0;
    const minimum = Math.max(count, listed);
    const text = minimum < 100_000 ? formatCount(minimum) : compact.format(minimum);
    return minimum > count || (state === 'completed' && this.#store.hasOlder(state)) ? `${text}+` : text;
  }
}

function markCurrent(links: HTMLElement, isCurrent: (link: HTMLElement) => boolean): void {
  for (const link of links.querySelectorAll('a')) {
    if (isCurrent(link)) link.setAttribute('aria-current', 'page');
    else link.removeAttribute('aria-current');
  }
}

import { effect, untracked } from '@preact/signals';
import { part } from '../shared/dom.ts';
import { formatCount, formatTasks } from './amounts.ts';
import { PAGE_SIZE } from './board-api.ts';
import type { BoardTask } from './board-task.ts';
import { EmptyState } from './empty-state.ts';
import { holdsText } from './find-field.ts';
import { MAX_LISTED } from './loaded-list.ts';
import { changeView, view as shownView } from './navigation.ts';
import { isSignedOut } from './service.ts';
import type { Store } from './store.ts';
import type { ListedState } from './task-row.ts';
import { TaskTable } from './task-table.ts';

const RELOAD_MS = 2_000;
const ALL_LISTED = 'These are all.';

/** List of the tasks in one state, with filters and a button that loads older tasks. */
export class ListView {
  readonly #section = part(document, 'list', HTMLElement);
  readonly #count = part(this.#section, 'list-count', HTMLElement);
  readonly #pause = part(this.#section, 'pause', HTMLButtonElement);
  readonly #chip = part(document, 'action-chip', HTMLButtonElement);
  readonly #older = part(this.#section, 'older', HTMLButtonElement);
  readonly #olderStatus = part(this.#section, 'older-status', HTMLElement);
  readonly #store: Store;
  readonly #table: TaskTable;
  readonly #empty: EmptyState;
  #requested = '';
  #isLoaded = false;
  #paused = false;
  #unkeep = () => {};
  #kept: string | undefined;
  #reload: ReturnType<typeof setTimeout> | undefined;

  constructor(store: Store) {
    this.#store = store;
    this.#table = new TaskTable((task) => changeView({ task }));
    this.#empty = new EmptyState((action) => changeView({ action, q: '' }));
    this.#chip.addEventListener('click', () => changeView({ action: '' }));
    this.#pause.addEventListener('click', () => this.#togglePause());
    this.#older.addEventListener('click', () => void this.#loadOlder());
    effect(() => {
      shownView.value;
      untracked(() => this.#follow());
    });
    store.subscribe(() => this.#render());
  }

  async load(): Promise<void> {
    const { state, action } = shownView.value;
    if (state === 'failed') return;
    clearTimeout(this.#reload);
    const requested = this.#requested;
    try {
      await this.#store.load(state, action === '' ? {} : { action });
      if (requested !== this.#requested) return;
      this.#isLoaded = true;
      this.#render();
    } catch (error) {
      if (requested === this.#requested && !isSignedOut(error))
        this.#reload = setTimeout(() => void this.load(), RELOAD_MS);
    }
  }

  #follow(): void {
    const { state, action, task } = shownView.value;
    if (task !== this.#kept) {
      this.#unkeep();
      this.#kept = task;
      this.#unkeep = task === undefined ? () => {} : this.#store.keep(task);
    }
    const wanted = `${state} ${action}`;
    if (wanted !== this.#requested) {
      this.#requested = wanted;
      this.#isLoaded = false;
      this.#older.disabled = false;
      this.#olderStatus.textContent = '';
      clearTimeout(this.#reload);
      if (this.#paused) this.#togglePause();
      void this.load();
    }
    this.#render();
  }

  #render(): void {
    const view = shownView.value;
    this.#chip.hidden = view.action === '';
    part(this.#chip, 'action-chip-name', HTMLElement).textContent = view.action;
    if (view.state === 'failed') return;
    const { state } = view;
    const listed = this.#store.tasks(state);
    const tasks = view.q === '' ? listed : listed.filter((task) => holdsText(textsOf(task), view.q));
    this.#table.show({ tasks, state, view, find: (id) => this.#store.get(id) });
    if (tasks.length > 0 || !this.#isLoaded) this.#empty.hide();
    else this.#empty.show(state, view, listed.length);
    const more = this.#store.more(state);
    this.#older.hidden = state !== 'completed' || !more || listed.length < PAGE_SIZE;
    if (more && this.#olderStatus.textContent === ALL_LISTED) this.#olderStatus.textContent = '';
    this.#showCount(state, tasks.length, listed.length);
  }

  #showCount(state: ListedState, found: number, listed: number): void {
    const total = this.#store.count(state) ?? 0;
    const isWhole =
      state === 'completed' ? !this.#store.hasOlder(state) : listed >= total || shownView.value.action !== '';
    const label = part(this.#pause, 'pause-label', HTMLElement);
    const unseen = this.#paused ? this.#table.unseen : 0;
    label.textContent = this.#paused ? 'Resume list' : 'Pause list';
    if (unseen > 0) this.#count.textContent = `${formatTasks(unseen)} not shown`;
    else if (found < listed) this.#count.textContent = `${formatCount(found)} of ${formatCount(listed)}`;
    else if (isWhole) this.#count.textContent = listed === 0 ? '' : formatTasks(listed);
    else if (state === 'completed') this.#count.textContent = `Newest ${formatTasks(listed)}`;
    else this.#count.textContent = `${formatCount(listed)} of ${formatCount(total)}`;
  }

  #togglePause(): void {
    this.#paused = !this.#paused;
    this.#section.toggleAttribute('data-paused', this.#paused);
    this.#table.still = this.#paused;
    this.#render();
  }

  async #loadOlder(): Promise<void> {
    const { state, action } = shownView.value;
    const before = this.#store.last(state);
    if (before === undefined) return;
    const requested = this.#requested;
    this.#older.disabled = true;
    const query = action === '' ? {} : { action };
    try {
      const { more } = await this.#store.load(state, { ...query, before });
      if (requested !== this.#requested) return;
      const isFull = this.#store.tasks(state).length >= MAX_LISTED;
      const end = isFull ? `The newest ${formatTasks(MAX_LISTED)} are listed.` : ALL_LISTED;
      this.#olderStatus.textContent = more ? '' : end;
    } catch (error) {
      if (requested !== this.#requested) return;
      this.#olderStatus.textContent = (error as Error).message;
    }
    this.#older.disabled = false;
    this.#render();
  }
}

function textsOf({ id, action, payload, result, reason }: BoardTask): (string | null | undefined)[] {
  return [id, action, payload, result, reason];
}

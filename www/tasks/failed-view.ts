import type { LetterSelection } from '../client/dead-letters.ts';
import type { TaskState } from '../client/task-state.ts';
import { makeCopyButton } from '../shared/copy-button.ts';
import { part } from '../shared/dom.ts';
import type { View } from './address.ts';
import { formatCount, formatTasks } from './amounts.ts';
import { BulkBar } from './bulk-bar.ts';
import { curlCommand } from './curl.ts';
import { purgeLetters, redriveLetters } from './dead-letters.ts';
import { FailedList } from './failed-list.ts';
import { FailedSelection } from './failed-selection.ts';
import { readPayload } from './json-text.ts';
import { PurgeLater } from './purge-later.ts';
import { ReasonList } from './reason-list.ts';
import { deadLetters, findTask, type Submission } from './service.ts';
import type { BoardTask, Store } from './store.ts';

const REASONS_INTERVAL_MS = 2_000;
const EXAMPLE: Submission = { action: 'sum', data: { numbers: ['one'] } };

export interface FailedViewOptions {
  host: HTMLElement;
  store: Store;
  onOpen(id: string): void;
  onResubmit(submission: Submission): void;
}

/** List of the failed tasks by reason, which the user can redrive, purge, or edit and resubmit. */
export class FailedView {
  readonly #host: HTMLElement;
  readonly #options: FailedViewOptions;
  readonly #list: FailedList;
  readonly #status: HTMLElement;
  readonly #older: HTMLButtonElement;
  readonly #reasons: ReasonList;
  readonly #selection: FailedSelection;
  readonly #bar: BulkBar;
  readonly #purge: PurgeLater;
  #view: View | undefined;
  #counted: number | undefined;
  #reasonsAt = Number.NEGATIVE_INFINITY;
  #isLoaded = false;
  #error = '';

  constructor(options: FailedViewOptions) {
    const { host, store } = options;
    this.#host = host;
    this.#options = options;
    this.#list = new FailedList(part(host, 'failed-list', HTMLElement), {
      onOpen: options.onOpen,
      onSelect: (id, isSelected) => this.#change(() => this.#set(id, isSelected)),
      onRedrive: (id) => void this.#redrive({ ids: [id] }),
      onEdit: (id) => void this.#edit(id),
    });
    this.#status = part(host, 'failed-status', HTMLElement);
    this.#older = part(host, 'failed-older', HTMLButtonElement);
    this.#reasons = new ReasonList(part(host, 'reasons', HTMLElement), () => {
      this.#selection.clear();
      void this.#load();
    });
    this.#selection = new FailedSelection((id) => store.keep(id));
    this.#bar = new BulkBar(part(host, 'bulk', HTMLElement), {
      onSelectShown: (isSelected) => this.#selectShown(isSelected),
      onSelectMatching: () => this.#change(() => this.#selection.selectMatching()),
      onRedrive: () => void this.#redrive(this.#letters),
      onPurge: () => this.#purge.ask(this.#letters, this.#selectedCount),
    });
    this.#purge = new PurgeLater({
      root: document,
      send: purgeLetters,
      onStart: () => this.#change(() => this.#selection.clear()),
      onEnd: () => void this.#load(),
    });
    const curl = part(host, 'failed-curl', HTMLElement);
    makeCopyButton(part(host, 'copy-failed-curl', HTMLButtonElement), curl);
    this.#older.addEventListener('click', () => void this.#load(store.last('failed')));
    store.subscribe(() => this.#onStore());
    store.onGap(() => void this.#load());
  }

  /** Shows the failed tasks that match the filters of `view`, or hides the list if `view` is undefined. */
  show(view: View | undefined): void {
    const isOpened = view !== undefined && this.#view === undefined;
    // A selection of all matching tasks ends with a new filter, because the service cannot filter by text or action.
    const isFilterChanged = view?.q !== this.#view?.q || view?.action !== this.#view?.action;
    if (isFilterChanged && this.#selection.isAllMatching) this.#selection.clear();
    this.#view = view;
    this.#host.hidden = view === undefined;
    if (isOpened) void this.#load();
    else this.#render();
  }

  #change(change: () => void): void {
    change();
    this.#render();
  }

  #set(id: string, isSelected: boolean): void {
    if (this.#selection.isAllMatching) this.#selection.narrow(this.#shown.map((task) => task.id));
    this.#selection.set(id, isSelected);
  }

  #selectShown(isSelected: boolean): void {
    this.#change(() => this.#selection.narrow(isSelected ? this.#shown.map(({ id }) => id) : []));
  }

  async #redrive(letters: LetterSelection): Promise<void> {
    this.#bar.busy = true;
    this.#render();
    try {
      const { count, remaining } = await redriveLetters(letters);
      const rest = remaining === 0 ? '' : ` ${formatTasks(remaining)} did not fit into the queue. Redrive them later.`;
      this.#status.textContent = `Redrove ${formatTasks(count)}.${rest}`;
      this.#selection.clear();
    } catch (error) {
      this.#status.textContent = `Not redriven: ${(error as Error).message}`;
    }
    this.#bar.busy = false;
    await this.#load();
  }

  async #edit(id: string): Promise<void> {
    try {
      const payload = (await findTask<TaskState>(id))?.payload;
      if (payload === undefined) this.#status.textContent = 'The service no longer knows this task.';
      else this.#options.onResubmit(readPayload(payload));
    } catch (error) {
      this.#status.textContent = `Cannot edit the task: ${(error as Error).message}`;
    }
  }

  async #load(before?: string): Promise<void> {
    if (this.#view === undefined) return;
    const { store } = this.#options;
    const reason = this.#reasons.chosen;
    const isCurrent = () => this.#view !== undefined && this.#reasons.chosen === reason;
    this.#error = '';
    try {
      const query = { ...(reason !== undefined && { reason }), ...(before !== undefined && { before }) };
      await Promise.all([store.load('failed', query), this.#readReasons()]);
      if (!isCurrent()) return;
      this.#isLoaded = true;
    } catch (error) {
      if (!isCurrent()) return;
      this.#error = `Not up to date: ${(error as Error).message}`;
    }
    this.#render();
  }

  async #readReasons(): Promise<void> {
    if (this.#view === undefined) return;
    this.#reasonsAt = performance.now();
    this.#counted = this.#options.store.count('failed');
    this.#reasons.show((await deadLetters.reasons()).reasons);
  }

  #onStore(): void {
    if (this.#view === undefined) return;
    const isDue = performance.now() - this.#reasonsAt >= REASONS_INTERVAL_MS;
    if (isDue && this.#options.store.count('failed') !== this.#counted) {
      void this.#readReasons().then(
        () => this.#render(),
        () => {},
      );
    }
    this.#render();
  }

  #render(): void {
    if (this.#view === undefined) return;
    const shown = this.#shown;
    this.#selection.retain((id) => this.#options.store.get(id)?.state === 'failed');
    this.#list.show(shown, this.#view, (id) => this.#selection.has(id));
    this.#older.hidden = !this.#options.store.more('failed');
    this.#renderBar(shown);
    this.#renderEmpty(shown);
  }

  #renderBar(shown: readonly BoardTask[]): void {
    const isFiltered = this.#view?.q !== '' || this.#view?.action !== '';
    const selected = shown.filter(({ id }) => this.#selection.has(id));
    const permanent = selected.filter((task) => task.permanent).length;
    this.#bar.show({
      shown: shown.length,
      selectedShown: selected.length,
      selected: this.#selectedCount,
      // The service cannot filter by text or action, so with these filters only tasks in the list can be selected.
      matching: isFiltered ? shown.length : this.#reasons.matching,
      isAllMatching: this.#selection.isAllMatching,
      permanent: this.#selection.isAllMatching ? this.#reasons.permanent : permanent,
    });
  }

  #renderEmpty(shown: readonly BoardTask[]): void {
    const total = this.#options.store.count('failed') ?? this.#reasons.total;
    const isEmpty = this.#isLoaded && shown.length === 0;
    const isNoneFailed = isEmpty && this.#listed.length === 0 && this.#reasons.chosen === undefined;
    part(this.#host, 'failed-count', HTMLElement).textContent = total > 0 ? formatCount(total) : '';
    part(this.#host, 'reasons-panel', HTMLElement).hidden = this.#reasons.total === 0;
    part(this.#host, 'failed-none', HTMLElement).hidden = !isNoneFailed;
    if (isNoneFailed) {
      part(this.#host, 'failed-curl', HTMLElement).textContent = curlCommand(location.origin, EXAMPLE);
    }
    part(this.#host, 'failed-unmatched', HTMLElement).hidden = !isEmpty || isNoneFailed;
    this.#say('failed-error', this.#error || (this.#options.store.problem?.message ?? ''));
  }

  #say(name: string, text: string): void {
    const element = part(this.#host, name, HTMLElement);
    if (element.textContent !== text) element.textContent = text;
  }

  get #listed(): readonly BoardTask[] {
    return this.#options.store.tasks('failed').filter((task) => !this.#purge.has(task));
  }

  get #shown(): readonly BoardTask[] {
    const { q = '', action = '' } = this.#view ?? {};
    const wanted = q.trim().toLowerCase();
    return this.#listed.filter((task) => {
      if (action !== '' && task.action !== action) return false;
      return [task.id, task.action, task.reason, task.payload].some((text) => text?.toLowerCase().includes(wanted));
    });
  }

  get #selectedCount(): number {
    return this.#selection.isAllMatching ? this.#reasons.matching : this.#selection.size;
  }

  get #letters(): LetterSelection {
    return this.#selection.toLetters(this.#reasons.chosen);
  }
}

import { part, stamp } from '../shared/dom.ts';
import { formatCount } from './amounts.ts';
import { holdsText } from './find-text.ts';
import { isSignedOut } from './service.ts';
import { visibleText } from './visible-text.ts';

/** Ratio of the pause between two requests to the duration of a request, so that a long list is read less often. */
const PAUSE_RATIO = 20;

/** Text and links that report what an action has done. */
export type Report = readonly (string | Node)[];

export interface SettingsListOptions<Item> {
  host: HTMLElement;
  /** Name of the HTML template of a row. */
  template: string;
  /** Shortest interval between two requests. */
  intervalMs: number;
  read(): Promise<Item[]>;
  nameOf(item: Item): string;
  render(row: HTMLElement, item: Item): void;
  /** Called for a control marked as `data-do`. The item is undefined if the control is in no row. */
  act(name: string, item: Item | undefined): Promise<Report>;
}

/** List that is read again while it is visible. Rows are updated in place, so that they keep the focus. */
export class SettingsList<Item extends object> {
  readonly #options: SettingsListOptions<Item>;
  readonly #list: HTMLElement;
  readonly #status: HTMLElement;
  readonly #rows = new Map<string, { element: HTMLElement; version: string }>();
  #items: Item[] | undefined;
  /** Text that the listed items must hold. Undefined while the list is hidden. */
  #q: string | undefined;
  #requests = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(options: SettingsListOptions<Item>) {
    const { host } = options;
    this.#options = options;
    this.#list = part(host, 'settings', HTMLElement);
    this.#status = part(host, 'settings-status', HTMLElement);
    for (const type of ['click', 'change']) host.addEventListener(type, (event) => this.#onEvent(event));
    document.addEventListener('visibilitychange', () => void this.load());
  }

  /** @param q text that the listed items must hold, or undefined to hide the list */
  show(q: string | undefined): void {
    const isOpened = q !== undefined && this.#q === undefined;
    this.#q = q;
    this.#options.host.hidden = q === undefined;
    if (isOpened) this.#status.replaceChildren();
    if (isOpened) void this.load();
    else this.#render();
  }

  /** Reads the list, unless it is hidden. */
  async load(): Promise<void> {
    clearTimeout(this.#timer);
    if (this.#q === undefined || document.visibilityState === 'hidden') return;
    this.#requests += 1;
    const number = this.#requests;
    const startedAt = performance.now();
    const notice = part(this.#options.host, 'settings-error', HTMLElement);
    try {
      const items = await this.#options.read();
      if (number !== this.#requests) return;
      this.#items = items;
      notice.textContent = '';
      this.#render();
    } catch (error) {
      if (number !== this.#requests || isSignedOut(error)) return;
      notice.textContent = `Not up to date: ${(error as Error).message}`;
    }
    const pauseMs = Math.max(this.#options.intervalMs, PAUSE_RATIO * (performance.now() - startedAt));
    clearTimeout(this.#timer);
    this.#timer = setTimeout(() => void this.load(), pauseMs);
  }

  #onEvent({ type, target }: Event): void {
    const control = (target as Element).closest<HTMLElement>('[data-do]');
    const isMeant = control instanceof HTMLInputElement === (type === 'change');
    if (control !== null && isMeant && control.ariaDisabled !== 'true') void this.#act(control);
  }

  async #act(control: HTMLElement): Promise<void> {
    const name = control.closest<HTMLElement>('[data-name]')?.dataset.name;
    const item = this.#items?.find((each) => this.#options.nameOf(each) === name);
    // A control with the `disabled` attribute loses the focus.
    control.ariaDisabled = 'true';
    try {
      this.#status.replaceChildren(...(await this.#options.act(control.dataset.do ?? '', item)));
    } catch (error) {
      this.#status.textContent = (error as Error).message;
    }
    control.ariaDisabled = null;
    // A switch that had no effect must show the stored setting again.
    const row = this.#rows.get(name ?? '');
    if (row !== undefined) row.version = '';
    await this.load();
    if (!control.isConnected) part(this.#options.host, 'new', HTMLElement).focus();
  }

  #render(): void {
    if (this.#items === undefined || this.#q === undefined) return;
    const { nameOf, host } = this.#options;
    const q = this.#q;
    const items = this.#items.filter((item) => q === '' || holdsText([JSON.stringify(item)], q));
    const names = new Set(items.map(nameOf));
    for (const [name, { element }] of this.#rows) {
      if (names.has(name)) continue;
      element.remove();
      this.#rows.delete(name);
    }
    let next = this.#list.firstElementChild;
    for (const item of items) {
      const { element } = this.#rowOf(item);
      if (element === next) next = next.nextElementSibling;
      else this.#list.insertBefore(element, next);
    }
    part(host, 'settings-empty', HTMLElement).hidden = this.#items.length > 0;
    const isFiltered = items.length < this.#items.length;
    const count = isFiltered ? `${formatCount(items.length)} of ${formatCount(this.#items.length)}` : '';
    part(host, 'settings-count', HTMLElement).textContent = count;
  }

  #rowOf(item: Item) {
    const name = this.#options.nameOf(item);
    const row = this.#rows.get(name) ?? { element: stamp(this.#options.template), version: '' };
    const version = JSON.stringify(item);
    if (row.version !== version) {
      row.element.dataset.name = name;
      part(row.element, 'name', HTMLElement).textContent = visibleText(name);
      this.#options.render(row.element, item);
      for (const control of row.element.querySelectorAll<HTMLElement>('[data-do]')) {
        control.ariaLabel = `${control.closest('label, button')?.textContent.trim()}: ${visibleText(name)}`;
      }
    }
    row.version = version;
    this.#rows.set(name, row);
    return row;
  }
}

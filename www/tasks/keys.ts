import { part } from '../shared/dom.ts';
import type { View } from './address.ts';
import { STATES, type State } from './board-task.ts';

export interface KeyActions {
  find(): void;
  queue(): void;
  help(): void;
  show(state: State): void;
  open(page: View['page']): void;
  /** Called with the task id of the row to which `j` or `k` has moved the focus. */
  moved(id: string): void;
}

const OFF = 'keys-off';
const PAGE_KEYS: Readonly<Record<string, View['page']>> = { 8: 'schedules', 9: 'limits' };

/** Single-key shortcuts. The user can switch them off, because speech input may type single characters. */
export class Keys {
  readonly #actions: KeyActions;
  readonly #switch = part(document, 'keys-enabled', HTMLInputElement);

  constructor(actions: KeyActions) {
    this.#actions = actions;
    this.#switch.checked = !isStoredAsOff();
    this.#switch.addEventListener('change', () => store(!this.#switch.checked));
    document.addEventListener('keydown', (event) => {
      const isForPage = !event.ctrlKey && !event.metaKey && !event.altKey && !event.defaultPrevented;
      if (!isForPage || isTyping(event.target) || isBehindDialog() || !this.#switch.checked) return;
      if (this.#press(event.key)) event.preventDefault();
    });
  }

  #press(key: string): boolean {
    const { find, queue, help, show, open } = this.#actions;
    const state = STATES[Number(key) - 1];
    const page = PAGE_KEYS[key];
    if (key === '/') find();
    else if (key === 'n') queue();
    else if (key === '?') help();
    else if (key === 'j') this.#move(1);
    else if (key === 'k') this.#move(-1);
    else if (key === 'x') click(currentRow(), 'data-select');
    else if (key === 'r') redrive();
    else if (state !== undefined) show(state);
    else if (page !== undefined) open(page);
    else return false;
    return true;
  }

  /** Moves the focus by one row from the focused row, or from the inspected row if no row has the focus. */
  #move(step: 1 | -1): void {
    const rows = visibleRows();
    const current = currentRow() ?? document.querySelector<HTMLElement>('[data-row][data-inspected]');
    const index = current === null ? -1 : rows.indexOf(current);
    const row = index < 0 ? rows[0] : rows[index + step];
    if (row === undefined) return;
    row.querySelector<HTMLElement>('[data-open]')?.focus({ preventScroll: true });
    row.scrollIntoView({ block: 'nearest' });
    this.#actions.moved(row.dataset.row ?? '');
  }
}

function isStoredAsOff(): boolean {
  try {
    return localStorage.getItem(OFF) !== null;
  } catch {
    return false;
  }
}

function store(isOff: boolean): void {
  try {
    if (isOff) localStorage.setItem(OFF, '');
    else localStorage.removeItem(OFF);
  } catch {
    // The browser blocks storage, so switched-off shortcuts are on again when the page is reopened.
  }
}

function visibleRows(): HTMLElement[] {
  return [...document.querySelectorAll<HTMLElement>('[data-row]')].filter((row) => row.checkVisibility());
}

function currentRow(): HTMLElement | null {
  return document.activeElement?.closest<HTMLElement>('[data-row]') ?? null;
}

function redrive(): void {
  const ofSelection = document.querySelector<HTMLElement>('[data-redrive-selected]');
  if (ofSelection?.checkVisibility() && !ofSelection.matches(':disabled')) ofSelection.click();
  else click(currentRow(), 'data-redrive');
}

function click(row: HTMLElement | null, attribute: string): void {
  row?.querySelector<HTMLElement>(`[${attribute}]`)?.click();
}

function isTyping(target: EventTarget | null): boolean {
  if (!(target instanceof HTMLElement)) return false;
  return target.matches('textarea, select, input:not([type="checkbox"], [type="radio"])') || target.isContentEditable;
}

function isBehindDialog(): boolean {
  return document.querySelector('dialog:modal') !== null;
}

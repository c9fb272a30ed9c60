import { part } from '../shared/dom.ts';
import { formatCount, formatTasks } from './amounts.ts';

export interface BulkBarListeners {
  onSelectShown(isSelected: boolean): void;
  onSelectMatching(): void;
  onRedrive(): void;
  onPurge(): void;
}

/** `shown` counts the tasks in the list, `matching` all tasks with the chosen reason. */
export interface BulkNumbers {
  shown: number;
  selectedShown: number;
  selected: number;
  matching: number;
  isAllMatching: boolean;
  permanent: number;
}

/** Controls that select failed tasks, and redrive or purge the selected ones. */
export class BulkBar {
  readonly #bar: HTMLElement;
  readonly #all: HTMLInputElement;
  readonly #matching: HTMLButtonElement;
  readonly #redrive: HTMLButtonElement;
  readonly #purge: HTMLButtonElement;
  #isBusy = false;

  constructor(bar: HTMLElement, listeners: BulkBarListeners) {
    this.#bar = bar;
    this.#all = part(bar, 'select-shown', HTMLInputElement);
    this.#matching = part(bar, 'select-matching', HTMLButtonElement);
    this.#redrive = part(bar, 'bulk-redrive', HTMLButtonElement);
    this.#purge = part(bar, 'bulk-purge', HTMLButtonElement);
    this.#all.addEventListener('change', () => listeners.onSelectShown(this.#all.checked));
    this.#matching.addEventListener('click', () => {
      listeners.onSelectMatching();
      this.#redrive.focus();
    });
    this.#redrive.addEventListener('click', () => this.#unlessDisabled(this.#redrive, listeners.onRedrive));
    this.#purge.addEventListener('click', () => this.#unlessDisabled(this.#purge, listeners.onPurge));
  }

  set busy(busy: boolean) {
    this.#isBusy = busy;
  }

  show({ shown, selectedShown, selected, matching, isAllMatching, permanent }: BulkNumbers): void {
    this.#bar.hidden = shown === 0;
    this.#all.checked = shown > 0 && selectedShown === shown;
    this.#all.indeterminate = selectedShown > 0 && selectedShown < shown;
    const isMore = matching > shown && !isAllMatching && selectedShown === shown;
    this.#matching.hidden = !isMore;
    this.#write(this.#matching, `Select all ${formatCount(matching)}`);
    this.#write(part(this.#bar, 'selected-count', HTMLElement), selectedText(selected, shown, matching));
    for (const button of [this.#redrive, this.#purge]) {
      // A button with the `disabled` attribute loses the focus.
      button.ariaDisabled = String(selected === 0 || this.#isBusy);
    }
    // The `r` shortcut clicks the redrive button only if the button has `data-redrive-selected`.
    this.#redrive.toggleAttribute('data-redrive-selected', selected > 0);
    const note = part(this.#bar, 'permanent-note', HTMLElement);
    note.hidden = permanent === 0;
    this.#write(note, permanentText(permanent));
  }

  #unlessDisabled(button: HTMLButtonElement, act: () => void): void {
    if (button.ariaDisabled !== 'true') act();
  }

  #write(element: HTMLElement, text: string): void {
    if (element.textContent !== text) element.textContent = text;
  }
}

function selectedText(selected: number, shown: number, matching: number): string {
  if (selected > 0) return `${formatCount(selected)} selected`;
  return matching > shown ? `${formatCount(shown)} of ${formatTasks(matching)}` : formatTasks(shown);
}

function permanentText(permanent: number): string {
  const subject =
    permanent === 1 ? '1 of them has a permanent error' : `${formatCount(permanent)} have permanent errors`;
  return `${subject}: a redrive fails again unless the cause is fixed.`;
}

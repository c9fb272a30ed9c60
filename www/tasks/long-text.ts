import { makeCopyButton } from '../shared/copy-button.ts';
import { part } from '../shared/dom.ts';
import { formatSize } from './amounts.ts';
import { visibleText } from './visible-text.ts';

const SHOWN = 20_000;

/** Text with a copy button. Only the first 20,000 characters are shown until the user asks for all. */
export class LongText {
  readonly #element: HTMLElement;
  readonly #more: HTMLButtonElement;
  #text = '';
  #isWhole = false;

  /** @param host element that contains a text, a `show-all` button and a `copy` button */
  constructor(host: HTMLElement) {
    this.#element = part(host, 'text', HTMLElement);
    this.#more = part(host, 'show-all', HTMLButtonElement);
    this.#more.addEventListener('click', () => {
      this.#isWhole = true;
      this.#element.focus();
      this.#write();
    });
    makeCopyButton(part(host, 'copy', HTMLButtonElement), this.#element, () => this.#text);
  }

  show(text: string): void {
    if (text === this.#text) return;
    this.#text = text;
    this.#isWhole = false;
    this.#write();
  }

  #write(): void {
    const isCut = !this.#isWhole && this.#text.length > SHOWN;
    this.#element.textContent = visibleText(isCut ? `${this.#text.slice(0, SHOWN)}…` : this.#text);
    this.#more.hidden = !isCut;
    this.#more.textContent = `Show all ${formatSize(this.#text.length)}`;
  }
}

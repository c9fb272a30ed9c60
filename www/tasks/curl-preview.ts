import { makeCopyButton } from '../shared/copy-button.ts';
import { part } from '../shared/dom.ts';
import { curlCommand } from './curl.ts';
import type { Submission } from './tasks-api.ts';

/** Maximum length of a command that is shown whole. Browsers take seconds to lay out a megabyte of text. */
const MAX_SHOWN = 20_000;
/** Delay after the last change before a long command is computed and shown. */
const SETTLE_MS = 300;

/** Panel with the curl command that queues the task in the form. A long command is cut, but copied whole. */
export class CurlPreview {
  readonly #panel = part(document, 'curl-panel', HTMLElement);
  readonly #text = part(this.#panel, 'curl', HTMLElement);
  readonly #read: () => Submission | undefined;
  #command = '';
  #timer: ReturnType<typeof setTimeout> | undefined;

  /** @param read returns the submission in the form, or undefined if the form is invalid */
  constructor(read: () => Submission | undefined) {
    this.#read = read;
    makeCopyButton(part(this.#panel, 'copy-curl', HTMLButtonElement), this.#text, () => this.#whole());
  }

  /** Updates the command, after a delay if the form's content is long. @param length length of the form's content */
  update(length: number): void {
    clearTimeout(this.#timer);
    if (length <= MAX_SHOWN) this.#show();
    else this.#timer = setTimeout(() => this.#show(), SETTLE_MS);
  }

  /** Returns the whole command, even if it has not been shown since the last change. */
  #whole(): string {
    this.#show();
    return this.#command;
  }

  #show(): void {
    clearTimeout(this.#timer);
    const submission = this.#read();
    this.#panel.hidden = submission === undefined;
    if (submission === undefined) return;
    this.#command = curlCommand(location.origin, submission);
    const { length } = this.#command;
    const cut = `${this.#command.slice(0, MAX_SHOWN)}… (${length.toLocaleString('en-US')} characters; Copy copies all)`;
    this.#text.textContent = length > MAX_SHOWN ? cut : this.#command;
  }
}

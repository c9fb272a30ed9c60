import { makeCopyButton } from '../shared/copy-button.ts';
import { part } from '../shared/dom.ts';
import { curlCommand } from './curl.ts';
import type { Submission } from './service.ts';

/** Maximum number of characters shown, because browsers take seconds to lay out a megabyte of text. */
const MAX_SHOWN = 20_000;
/** Delay from the last change of the form until a long curl command is shown. */
const SETTLE_MS = 300;

/** Shows the curl command that queues the task in the form. A long command is shown truncated but copied whole. */
export class CurlPreview {
  readonly #panel = part(document, 'curl-panel', HTMLElement);
  readonly #text = part(this.#panel, 'curl', HTMLElement);
  readonly #read: () => Submission | undefined;
  #command = '';
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor(read: () => Submission | undefined) {
    this.#read = read;
    makeCopyButton(part(this.#panel, 'copy-curl', HTMLButtonElement), this.#text, () => this.#whole());
  }

  /** @param length number of characters in the form; above {@link MAX_SHOWN}, the command is shown after a delay */
  update(length: number): void {
    clearTimeout(this.#timer);
    if (length <= MAX_SHOWN) this.#show();
    else this.#timer = setTimeout(() => this.#show(), SETTLE_MS);
  }

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

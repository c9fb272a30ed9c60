import { part } from '../shared/dom.ts';

/** Dialog that lists the keys. */
export class Help {
  readonly #dialog = part(document, 'help', HTMLDialogElement);

  constructor() {
    part(document, 'help-button', HTMLButtonElement).addEventListener('click', () => this.open());
    this.#dialog.addEventListener('click', (event) => {
      // A click beside the dialog's content has the dialog as its target.
      if (event.target === this.#dialog) this.#dialog.close();
    });
  }

  open(): void {
    this.#dialog.showModal();
  }
}

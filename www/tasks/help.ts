import { part } from '../shared/dom.ts';

/** Dialog that lists the keyboard shortcuts. */
export class Help {
  readonly #dialog = part(document, 'help', HTMLDialogElement);

  constructor() {
    part(document, 'help-button', HTMLButtonElement).addEventListener('click', () => this.open());
    this.#dialog.addEventListener('click', (event) => {
      // A click on the dialog's backdrop has the dialog itself as target.
      if (event.target === this.#dialog) this.#dialog.close();
    });
  }

  open(): void {
    this.#dialog.showModal();
  }
}

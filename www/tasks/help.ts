import { part } from '../shared/dom.ts';

export class Help {
  readonly #dialog = part(document, 'help', HTMLDialogElement);

  constructor() {
    part(document, 'help-button', HTMLButtonElement).addEventListener('click', () => this.open());
    this.#dialog.addEventListener('click', (event) => {
      // The target of a click on the dialog's backdrop is the dialog element.
      if (event.target === this.#dialog) this.#dialog.close();
    });
  }

  open(): void {
    this.#dialog.showModal();
  }
}

import { part } from '../shared/dom.ts';
import { isUnfinished } from './board-task.ts';
import { cancelTask, deadLetters, hasStatus, runTask, type Submission } from './service.ts';

export interface InspectorActionListeners {
  onChange(): void;
  onResubmit(submission: Submission): void;
}

/** Buttons that run, cancel, redrive, or edit and resubmit the inspected task. */
export class InspectorActions {
  readonly #run: HTMLButtonElement;
  readonly #cancel: HTMLButtonElement;
  readonly #redrive: HTMLButtonElement;
  readonly #resubmit: HTMLButtonElement;
  readonly #error: HTMLElement;
  readonly #title: HTMLElement;
  #id = '';
  #submission: Submission | undefined;
  #cancelling: string | undefined;

  constructor(host: HTMLElement, { onChange, onResubmit }: InspectorActionListeners) {
    this.#run = part(host, 'inspector-run', HTMLButtonElement);
    this.#cancel = part(host, 'inspector-cancel', HTMLButtonElement);
    this.#redrive = part(host, 'inspector-redrive', HTMLButtonElement);
    this.#resubmit = part(host, 'inspector-resubmit', HTMLButtonElement);
    this.#error = part(host, 'inspector-error', HTMLElement);
    this.#title = part(host, 'inspector-title', HTMLElement);
    this.#cancel.addEventListener('click', () => void this.#onCancel().then(onChange));
    this.#run.addEventListener('click', () => void this.#request(this.#run, runTask, 'Not run').then(onChange));
    this.#redrive.addEventListener('click', () => {
      void this.#request(this.#redrive, deadLetters.redrive, 'Not redriven').then(onChange);
    });
    this.#resubmit.addEventListener('click', () => {
      if (this.#submission !== undefined) onResubmit(this.#submission);
    });
  }

  get isCancelling(): boolean {
    return this.#cancelling === this.#id;
  }

  show(id: string, status: string, submission: Submission | undefined): void {
    if (id !== this.#id) this.#error.textContent = '';
    this.#id = id;
    this.#submission = submission;
    if (this.isCancelling && !isUnfinished(status)) this.#cancelling = undefined;
    this.#offer(this.#run, status === 'scheduled' || status === 'retrying');
    this.#offer(this.#cancel, isUnfinished(status));
    this.#offer(this.#redrive, status === 'failed');
    // A submitted copy of a callback would be an ordinary task.
    this.#offer(this.#resubmit, submission !== undefined && submission.action !== 'callback');
    this.#cancel.textContent = this.isCancelling ? 'Cancelling' : 'Cancel';
    this.#cancel.ariaDisabled = String(this.isCancelling);
  }

  /** Shows or hides a button. If the hidden button had the focus, the title gets the focus. */
  #offer(button: HTMLButtonElement, isOffered: boolean): void {
    const isFocused = document.activeElement === button;
    button.hidden = !isOffered;
    if (isFocused && !isOffered) this.#title.closest('h2')?.focus();
  }

  async #onCancel(): Promise<void> {
    if (this.isCancelling) return;
    const id = this.#id;
    this.#cancelling = id;
    try {
      await cancelTask(id);
    } catch (error) {
      this.#cancelling = undefined;
      // An unknown (404) or finished (409) task needs no error message, because the inspector shows its state.
      const isOver = hasStatus(error, 404, 409);
      if (!isOver && id === this.#id) this.#error.textContent = `Not cancelled: ${(error as Error).message}`;
    }
  }

  async #request(button: HTMLButtonElement, send: (id: string) => Promise<void>, failure: string): Promise<void> {
    const id = this.#id;
    button.disabled = true;
    try {
      await send(id);
      this.#error.textContent = '';
    } catch (error) {
      if (id === this.#id) this.#error.textContent = `${failure}: ${(error as Error).message}`;
    } finally {
      button.disabled = false;
    }
  }
}

import { ServiceError } from '../client/errors.ts';
import type { ActionList } from '../client/task-client.ts';
import { part } from '../shared/dom.ts';
import { ActionField } from './action-field.ts';
import { CurlPreview } from './curl-preview.ts';
import { type Draft, DraftError, type DraftField, parseDraft } from './draft.ts';
import { isSignedOut, type Submission, submitTask } from './service.ts';
import { type Conditions, SubmitError } from './submit-error.ts';

export class SubmitForm {
  readonly #form = part(document, 'submit-form', HTMLFormElement);
  readonly #button = part(this.#form, 'submit', HTMLButtonElement);
  readonly #error = new SubmitError(this.#form);
  readonly #curl = new CurlPreview(() => this.#parse(() => {}));
  readonly #action = new ActionField(this.#form);
  readonly #onQueued: (id: string, submission: Submission) => void;
  readonly #onSignedOut: () => void;

  /** @param onSignedOut called if the service rejects the token */
  constructor(onQueued: (id: string, submission: Submission) => void, onSignedOut: () => void) {
    this.#onQueued = onQueued;
    this.#onSignedOut = onSignedOut;
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#form.addEventListener('input', () => {
      this.#clearErrors();
      this.#showKind();
      this.showCurl();
    });
    this.#form.addEventListener('keydown', (event) => {
      if (event.key === 'Enter' && (event.ctrlKey || event.metaKey)) this.#form.requestSubmit();
    });
    // Browsers restore a form's fields without an event when the user returns to the page.
    addEventListener('pageshow', () => this.#showFields());
    this.#showFields();
  }

  focus(): void {
    this.#form.closest('section')?.scrollIntoView({ block: 'nearest' });
    const field = this.#form.querySelector<HTMLElement>('[data-kind]:not([hidden]) :is(textarea, input, select)');
    field?.focus({ preventScroll: true });
  }

  /** Fills in an earlier task, so that the user can change and queue it. */
  edit(submission: Submission): void {
    const { action, data } = submission;
    const offersKind = (kind: string) => this.#kindInput(kind)?.closest('label')?.hidden === false;
    const { text, numbers } = data ?? {};
    this.#clearErrors();
    if (action === 'uppercase' && typeof text === 'string' && offersKind('uppercase')) {
      this.#fill('uppercase', 'text', text);
    } else if (action === 'sum' && isNumbers(numbers) && offersKind('sum')) {
      this.#fill('sum', 'numbers', numbers.join(', '));
    } else {
      this.#fill('other', 'action', action);
      this.#action.edit(submission);
    }
    this.#showFields();
    this.focus();
  }

  offer(actions: ActionList): void {
    this.#action.offer(actions);
    this.#showFields();
  }

  update(conditions: Conditions): void {
    this.#error.update(conditions);
  }

  async #submit(): Promise<void> {
    if (this.#error.isWaiting) return;
    this.#clearErrors();
    const submission = this.#parse((error) => {
      this.#showError(error);
      this.#field(error.field).focus();
    });
    if (submission === undefined) return;
    this.#button.disabled = true;
    try {
      this.#onQueued(await submitTask(submission), submission);
    } catch (error) {
      if (isSignedOut(error)) this.#onSignedOut();
      else if (error instanceof ServiceError && error.path !== undefined)
        this.#showWrong(error.message, error.path, error.detail);
      else this.#error.show(error as Error);
    } finally {
      this.#button.disabled = false;
    }
  }

  /** Returns the task in the form. If the form is invalid, calls `onError` and returns undefined. */
  #parse(onError: (error: DraftError) => void): Submission | undefined {
    const values = Object.fromEntries(new FormData(this.#form)) as unknown as Draft;
    try {
      return parseDraft(values);
    } catch (error) {
      if (!(error instanceof DraftError)) throw error;
      onError(error);
      return undefined;
    }
  }

  #fill(kind: string, field: DraftField, text: string): void {
    const input = this.#kindInput(kind);
    if (input) input.checked = true;
    (this.#field(field) as HTMLInputElement).value = text;
  }

  #kindInput(kind: string): HTMLInputElement | null {
    return this.#form.querySelector<HTMLInputElement>(`input[name="kind"][value="${kind}"]`);
  }

  #showFields(): void {
    this.#showKind();
    this.showCurl();
  }

  #showKind(): void {
    for (const group of this.#form.querySelectorAll<HTMLElement>('[data-kind]')) {
      group.hidden = group.dataset.kind !== this.#kind;
    }
  }

  get #kind(): FormDataEntryValue | null {
    return new FormData(this.#form).get('kind');
  }

  showCurl(): void {
    const fields = [...this.#form.querySelectorAll<HTMLInputElement | HTMLTextAreaElement>('input, textarea')];
    this.#curl.update(fields.reduce((length, { value }) => length + value.length, 0));
  }

  #showError({ field, message }: DraftError): void {
    this.#field(field).setAttribute('aria-invalid', 'true');
    part(this.#form, `${field}-error`, HTMLElement).textContent = message;
  }

  #showWrong(refusal: string, path: string, detail = ''): void {
    const message = `${refusal}: ${path === '' ? 'it' : path} ${detail}`;
    if (this.#kind !== 'other') {
      this.#error.show(new Error(message));
      return;
    }
    this.#showError(new DraftError('json', message));
    this.#action.showWrong(path);
  }

  #clearErrors(): void {
    this.#action.clearWrong();
    if (!this.#error.isWaiting) this.#error.clear();
    for (const error of this.#form.querySelectorAll('.field-error:not([data-part="submit-error"])')) {
      if (error.textContent !== '') error.textContent = '';
    }
    for (const field of this.#form.querySelectorAll('[aria-invalid]')) field.removeAttribute('aria-invalid');
  }

  #field(name: DraftField): HTMLElement {
    return this.#form.elements.namedItem(name) as HTMLElement;
  }
}

function isNumbers(value: unknown): value is number[] {
  return Array.isArray(value) && value.every((each) => typeof each === 'number');
}

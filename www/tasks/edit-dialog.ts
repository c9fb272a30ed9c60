import { ServiceError } from '../client/errors.ts';
import { part, stamp } from '../shared/dom.ts';

export interface EditField {
  name: string;
  label: string;
  hint?: string;
  /** Labels of the values that can be chosen. */
  choices?: Readonly<Record<string, string>>;
  isMultiline?: boolean;
}

export interface Edit {
  title: string;
  fields: readonly EditField[];
  values: Readonly<Record<string, string>>;
  /** Name of the field that cannot be changed. */
  fixed?: string | undefined;
  /** @throws {WrongInput | Refused | Unreachable} */
  save(values: Record<string, string>): Promise<void>;
}

/** Error of a field of the dialog. */
export class WrongInput extends Error {
  override name = 'WrongInput';
  readonly field: string;

  constructor(field: string, message: string) {
    super(message);
    this.field = field;
  }
}

type Control = HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement;

/** Dialog that edits named fields, and shows the error of a field below it. */
export class EditDialog {
  readonly #dialog = part(document, 'edit-dialog', HTMLDialogElement);
  readonly #form = part(this.#dialog, 'edit-form', HTMLFormElement);
  readonly #save = part(this.#dialog, 'edit-save', HTMLButtonElement);
  #edit: Edit | undefined;

  constructor() {
    this.#form.addEventListener('submit', (event) => {
      event.preventDefault();
      void this.#submit();
    });
    this.#form.addEventListener('input', () => this.#clearErrors());
    part(this.#dialog, 'edit-cancel', HTMLButtonElement).addEventListener('click', () => this.#dialog.close());
  }

  /** Opens the dialog. Resolves to whether the fields were saved. */
  open(edit: Edit): Promise<boolean> {
    this.#edit = edit;
    part(this.#dialog, 'edit-heading', HTMLElement).textContent = edit.title;
    const fields = edit.fields.map((field) => renderField(field, edit));
    part(this.#dialog, 'edit-fields', HTMLElement).replaceChildren(...fields);
    this.#clearErrors();
    this.#dialog.returnValue = '';
    this.#dialog.showModal();
    this.#form.querySelector<HTMLElement>('.field :is(input:not([readonly]), select)')?.focus();
    return new Promise((resolve) => {
      this.#dialog.addEventListener('close', () => resolve(this.#dialog.returnValue === 'saved'), { once: true });
    });
  }

  async #submit(): Promise<void> {
    const edit = this.#edit;
    if (edit === undefined || this.#save.ariaDisabled === 'true') return;
    this.#clearErrors();
    this.#save.ariaDisabled = 'true';
    try {
      await edit.save(Object.fromEntries(edit.fields.map(({ name }) => [name, this.#control(name).value])));
      if (edit === this.#edit) this.#dialog.close('saved');
    } catch (error) {
      if (edit === this.#edit) this.#show(error as Error, edit);
    } finally {
      this.#save.ariaDisabled = null;
    }
  }

  #show(error: Error, { fields }: Edit): void {
    const { name, message } = placeError(error, fields);
    if (name === undefined) {
      part(this.#dialog, 'edit-error', HTMLElement).textContent = message;
      return;
    }
    const control = this.#control(name);
    control.setAttribute('aria-invalid', 'true');
    part(control.parentElement as HTMLElement, 'field-error', HTMLElement).textContent = message;
    control.focus();
  }

  #clearErrors(): void {
    for (const error of this.#form.querySelectorAll('.field-error')) error.textContent = '';
    for (const control of this.#form.querySelectorAll('[aria-invalid]')) control.removeAttribute('aria-invalid');
  }

  #control(name: string): Control {
    return this.#form.elements.namedItem(name) as Control;
  }
}

function renderField(
  { name, label, hint = '', choices, isMultiline }: EditField,
  { values, fixed }: Edit,
): HTMLElement {
  const element = stamp('edit-field');
  const control = document.createElement(choices ? 'select' : isMultiline ? 'textarea' : 'input');
  for (const [value, text] of Object.entries(choices ?? {}))
    (control as HTMLSelectElement).add(new Option(text, value));
  const id = `edit-${name}`;
  Object.assign(control, { id, name, autocomplete: 'off', autocapitalize: 'none', spellcheck: false });
  control.value = values[name] ?? '';
  if (!(control instanceof HTMLSelectElement)) control.readOnly = name === fixed;
  control.setAttribute('aria-describedby', `${id}-error ${id}-hint`);
  const labelElement = part(element, 'field-label', HTMLLabelElement);
  labelElement.htmlFor = id;
  labelElement.textContent = label;
  labelElement.after(control);
  part(element, 'field-error', HTMLElement).id = `${id}-error`;
  Object.assign(part(element, 'field-hint', HTMLElement), { id: `${id}-hint`, textContent: hint });
  return element;
}

/** Returns the name of the field that an error is about, if it is one of `fields`, and the message to show. */
export function placeError(error: Error, fields: readonly EditField[]): { name: string | undefined; message: string } {
  const isField = (name: string) => fields.some((field) => field.name === name);
  if (error instanceof WrongInput) return { name: error.field, message: error.message };
  const { path, detail = error.message } = error instanceof ServiceError ? error : {};
  if (path === undefined) return { name: error.message.split(' ').find(isField), message: error.message };
  if (isField(path.slice(1))) return { name: path.slice(1), message: detail };
  // A path of invalid data leads into the data.
  const name = error.message === 'invalid data' ? 'data' : undefined;
  return { name, message: `${path.slice(1)} ${detail}`.trim() };
}

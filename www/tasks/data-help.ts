import { part, stamp } from '../shared/dom.ts';
import { type DataField, dataFields, fieldAt } from './data-fields.ts';

export class DataHelp {
  readonly #panel = part(document, 'data-help', HTMLElement);
  readonly #list = part(this.#panel, 'data-fields', HTMLElement);
  #fields: DataField[] = [];

  /** Shows the fields that a JSON Schema describes, or hides the list if `schema` is undefined. */
  show(schema: object | undefined): void {
    this.#fields = schema === undefined ? [] : dataFields(schema);
    this.#list.replaceChildren(...this.#fields.map(renderField));
    this.#panel.hidden = this.#fields.length === 0;
  }

  /** Marks the field at a JSON Pointer as wrong, or removes the mark if `path` is undefined. */
  mark(path: string | undefined): void {
    for (const item of this.#list.querySelectorAll('[data-wrong]')) item.removeAttribute('data-wrong');
    const field = path === undefined ? undefined : fieldAt(this.#fields, path);
    if (field !== undefined) this.#list.children[this.#fields.indexOf(field)]?.toggleAttribute('data-wrong', true);
  }
}

function renderField({ path, name, kind, required, about }: DataField): HTMLElement {
  const item = stamp('data-field');
  item.dataset.path = path;
  part(item, 'name', HTMLElement).textContent = name;
  part(item, 'kind', HTMLElement).textContent = kind;
  part(item, 'required', HTMLElement).hidden = !required;
  part(item, 'about', HTMLElement).textContent = about;
  return item;
}

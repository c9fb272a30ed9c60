import type { ActionList } from '../client/task-client.ts';
import { part } from '../shared/dom.ts';
import { DataHelp } from './data-help.ts';
import { dataTemplate } from './data-template.ts';
import { locate } from './json-location.ts';
import type { Submission } from './service.ts';

/** Actions with a form of their own, which is used only if the service reports no schema for the action. */
const OWN_FORMS = ['uppercase', 'sum'];

/** Part of the submit form in which the user chooses an action and enters its data as JSON. */
export class ActionField {
  readonly #form: HTMLFormElement;
  readonly #choice = part(document, 'choice', HTMLSelectElement);
  readonly #json: HTMLTextAreaElement;
  readonly #help = new DataHelp();
  readonly #texts = new Map<string, string>();
  #actions = new Map<string, ActionList['actions'][number]>();
  /** Name of the chosen action, or an empty string if the user types the name. */
  #chosen = '';

  constructor(form: HTMLFormElement) {
    this.#form = form;
    this.#json = form.elements.namedItem('json') as HTMLTextAreaElement;
    this.#choice.addEventListener('input', () => this.#choose());
  }

  offer({ actions, unknown_actions }: ActionList): void {
    const own = actions.filter(({ name, schema }) => schema !== undefined || !OWN_FORMS.includes(name));
    const allowsOthers = unknown_actions === 'process';
    this.#actions = new Map(own.map((action) => [action.name, action]));
    const options = own.map(({ name }) => new Option(name, name));
    if (allowsOthers) options.push(new Option('another action', ''));
    this.#choice.replaceChildren(...options);
    this.#choice.disabled = own.length === 0;
    part(this.#form, 'choice-field', HTMLElement).hidden = own.length === 0;
    part(this.#form, 'action-label', HTMLElement).textContent = own.length === 0 ? 'Action' : 'Name of the action';
    if (this.#actions.has(this.#chosen)) this.#choice.value = this.#chosen;
    this.#choose();
    const kinds = OWN_FORMS.filter((name) => !this.#actions.has(name));
    this.#offerKinds(own.length > 0 || allowsOthers ? [...kinds, 'other'] : kinds);
  }

  edit({ action, data }: Submission): void {
    this.#choice.value = this.#actions.has(action) ? action : '';
    this.#choose();
    this.#json.value = JSON.stringify(data ?? {}, null, 2);
  }

  /** @param path JSON Pointer into the task's data */
  showWrong(path: string): void {
    const { start, end } = locate(this.#json.value, path);
    this.#json.focus();
    this.#json.setSelectionRange(start, end);
    this.#help.mark(path);
  }

  clearWrong(): void {
    this.#help.mark(undefined);
  }

  #choose(): void {
    const previous = this.#chosen;
    this.#chosen = this.#choice.value;
    const schema = this.#actions.get(this.#chosen)?.schema;
    if (this.#chosen !== previous) {
      this.#texts.set(previous, this.#json.value);
      this.#json.value = this.#texts.get(this.#chosen) ?? JSON.stringify(dataTemplate(schema ?? {}), null, 2);
    }
    this.#help.show(schema);
    part(this.#form, 'choice-about', HTMLElement).textContent = describe(schema);
    part(this.#form, 'action-field', HTMLElement).hidden = this.#chosen !== '';
  }

  /** Shows only the radio buttons for `kinds`, and makes sure that a visible one is checked. */
  #offerKinds(kinds: string[]): void {
    const inputs = [...this.#form.querySelectorAll<HTMLInputElement>('input[name="kind"]')];
    for (const input of inputs) (input.closest('label') as HTMLElement).hidden = !kinds.includes(input.value);
    const offered = inputs.filter(({ value }) => kinds.includes(value));
    if (!offered.some(({ checked }) => checked) && offered[0] !== undefined) offered[0].checked = true;
  }
}

function describe(schema: { title?: unknown; description?: unknown } = {}): string {
  return [schema.title, schema.description].filter((text) => typeof text === 'string' && text !== '').join(': ');
}

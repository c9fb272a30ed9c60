import { effect } from '@preact/signals';
import { part } from '../shared/dom.ts';
import type { View } from './address.ts';
import { changeView, view } from './navigation.ts';

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Search field. A text filters the task list, and a task id opens the task. */
export class FindField {
  readonly #field = part(document, 'find', HTMLInputElement);
  readonly #bar = part(document, 'find-bar', HTMLElement);

  constructor() {
    this.#field.addEventListener('input', () => this.#find());
    part(document, 'find-form', HTMLFormElement).addEventListener('submit', (event) => event.preventDefault());
    effect(() => this.#show(view.value));
    // Browsers may restore an earlier text of the search field after a reload and from the back/forward cache.
    addEventListener('pageshow', () => this.#show(view.value));
  }

  focus(): void {
    this.#field.focus();
    this.#field.select();
  }

  #find(): void {
    const text = this.#field.value.trim();
    if (ID.test(text)) changeView({ task: text.toLowerCase(), q: '' });
    else changeView({ q: text }, 'replace');
  }

  #show({ q, state, page }: View): void {
    const list = state === 'failed' ? 'failed' : 'list';
    const head = part(document, `${page === 'tasks' ? list : page}-head`, HTMLElement);
    if (this.#bar.parentElement !== head) head.prepend(this.#bar);
    if (this.#field.value.trim() !== q) this.#field.value = q;
  }
}

/** Returns whether any of the texts contains `q`, ignoring case. */
export function holdsText(texts: readonly (string | null | undefined)[], q: string): boolean {
  const wanted = q.toLowerCase();
  return texts.some((text) => text?.toLowerCase().includes(wanted));
}

import { part } from '../shared/dom.ts';
import type { View, ViewState } from './view-state.ts';

const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/i;

/** Search field. A text filters the task list, and a task id opens the task. */
export class FindField {
  readonly #field = part(document, 'find', HTMLInputElement);
  readonly #bar = part(document, 'find-bar', HTMLElement);
  readonly #viewState: ViewState;

  constructor(viewState: ViewState) {
    this.#viewState = viewState;
    this.#field.addEventListener('input', () => this.#find());
    part(document, 'find-form', HTMLFormElement).addEventListener('submit', (event) => event.preventDefault());
    viewState.subscribe((view) => this.#show(view));
    // Browsers may restore an earlier text of the search field after a reload and from the back/forward cache.
    addEventListener('pageshow', () => this.#show(viewState.view));
    this.#show(viewState.view);
  }

  focus(): void {
    this.#field.focus();
    this.#field.select();
  }

  #find(): void {
    const text = this.#field.value.trim();
    if (ID.test(text)) this.#viewState.change({ task: text.toLowerCase(), q: '' });
    else this.#viewState.change({ q: text }, 'replace');
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

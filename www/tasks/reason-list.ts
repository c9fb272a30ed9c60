import type { ReasonGroup } from '../client/dead-letters.ts';
import { part, stamp } from '../shared/dom.ts';
import { formatCount } from './amounts.ts';
import { visibleText } from './visible-text.ts';

/** List of failure reasons with counts, of which the user chooses one or all. */
export class ReasonList {
  readonly #list: HTMLElement;
  readonly #onChoose: (reason: string | undefined) => void;
  #groups: readonly ReasonGroup[] = [];
  #chosen: string | undefined;
  #shown = '';

  constructor(list: HTMLElement, onChoose: (reason: string | undefined) => void) {
    this.#list = list;
    this.#onChoose = onChoose;
  }

  /** Chosen failure reason, or undefined for all reasons. */
  get chosen(): string | undefined {
    return this.#chosen;
  }

  get total(): number {
    return sum(this.#groups);
  }

  /** Number of dead letters with the chosen reason, or of all dead letters if no reason is chosen. */
  get matching(): number {
    return sum(this.#matching);
  }

  get permanent(): number {
    return sum(this.#matching.filter(({ permanent }) => permanent));
  }

  show(groups: readonly ReasonGroup[]): void {
    this.#groups = groups;
    const isGone = this.#chosen !== undefined && !groups.some(({ reason }) => reason === this.#chosen);
    if (isGone) this.choose(undefined);
    else this.#render();
  }

  choose(reason: string | undefined): void {
    this.#chosen = reason;
    this.#render();
    this.#onChoose(reason);
  }

  get #matching(): readonly ReasonGroup[] {
    return this.#groups.filter(({ reason }) => this.#chosen === undefined || reason === this.#chosen);
  }

  #render(): void {
    const version = JSON.stringify([this.#groups, this.#chosen]);
    if (version === this.#shown) return;
    this.#shown = version;
    const focused = this.#list.contains(document.activeElement) ? this.#chosen : null;
    const items = this.#groups.length > 1 ? [this.#renderAll()] : [];
    this.#list.replaceChildren(...items, ...this.#groups.map((group) => this.#renderGroup(group)));
    if (focused !== null) this.#list.querySelector<HTMLElement>('[aria-pressed="true"]')?.focus();
  }

  #renderAll(): HTMLElement {
    const item = stamp('reason-group');
    part(item, 'reason-text', HTMLElement).textContent = 'All reasons';
    return this.#finish(item, this.total, false, this.#chosen === undefined, undefined);
  }

  #renderGroup({ reason, count, permanent }: ReasonGroup): HTMLElement {
    const item = stamp('reason-group');
    part(item, 'reason-text', HTMLElement).textContent = reason === null ? 'Other reasons' : visibleText(reason);
    // "Other reasons" cannot be chosen, because the service filters dead letters by a single reason.
    part(item, 'reason', HTMLButtonElement).disabled = reason === null;
    return this.#finish(item, count, permanent, reason === this.#chosen, reason ?? undefined);
  }

  #finish(item: HTMLElement, count: number, permanent: boolean, isChosen: boolean, reason: string | undefined) {
    part(item, 'reason-count', HTMLElement).textContent = formatCount(count);
    part(item, 'reason-permanent', HTMLElement).hidden = !permanent;
    const button = part(item, 'reason', HTMLButtonElement);
    button.setAttribute('aria-pressed', String(isChosen));
    button.addEventListener('click', () => this.choose(isChosen ? undefined : reason));
    return item;
  }
}

function sum(groups: readonly ReasonGroup[]): number {
  return groups.reduce((total, { count }) => total + count, 0);
}

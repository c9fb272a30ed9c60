import { part } from '../shared/dom.ts';
import { formatTasks } from './amounts.ts';
import type { BulkResult, LetterSelection } from './dead-letters.ts';

/** Milliseconds during which a purge can be undone. */
const UNDO_MS = 8_000;
/** Milliseconds for which the result of a purge is shown. */
const RESULT_MS = 6_000;

export interface PurgeLaterOptions {
  /** Element with the dialog and the notice. */
  root: ParentNode;
  send(selection: LetterSelection): Promise<BulkResult>;
  /** Called when the pending purge starts, is undone or has ended. */
  onChange(): void;
}

/**
 * Asks before a purge, then sends it after {@link UNDO_MS}. Until then, the user can undo it, and leaving the page
 * cancels it. A second purge sends the pending one immediately.
 */
export class PurgeLater {
  readonly #dialog: HTMLDialogElement;
  readonly #notice: HTMLElement;
  readonly #undo: HTMLButtonElement;
  readonly #options: PurgeLaterOptions;
  #asked: { selection: LetterSelection; count: number } | undefined;
  #pending: LetterSelection | undefined;
  #sendAt = 0;
  #timer: ReturnType<typeof setTimeout> | undefined;
  #countdown: ReturnType<typeof setInterval> | undefined;

  constructor(options: PurgeLaterOptions) {
    this.#options = options;
    this.#dialog = part(options.root, 'purge-dialog', HTMLDialogElement);
    this.#notice = part(options.root, 'purge-notice', HTMLElement);
    this.#undo = part(this.#notice, 'purge-undo', HTMLButtonElement);
    part(this.#dialog, 'purge-keep', HTMLButtonElement).addEventListener('click', () => this.#dialog.close());
    part(this.#dialog, 'purge-confirm', HTMLButtonElement).addEventListener('click', () => {
      this.#dialog.close();
      this.#start();
    });
    this.#undo.addEventListener('click', () => this.#cancel('Undone. Nothing was purged.'));
    // Leaving the page cancels the purge, even if the browser keeps the page in its back/forward cache.
    addEventListener('pagehide', () => this.#cancel('Nothing was purged.'));
  }

  /** Dead letters that are about to be purged. */
  get pending(): LetterSelection | undefined {
    return this.#pending;
  }

  /** Asks the user whether to purge dead letters. @param count number of dead letters shown in the question */
  ask(selection: LetterSelection, count: number): void {
    this.#asked = { selection, count };
    part(this.#dialog, 'purge-question', HTMLElement).textContent = `Purge ${formatTasks(count)}?`;
    part(this.#dialog, 'purge-scope', HTMLElement).textContent =
      'ids' in selection ? '' : 'Tasks that fail until then and match are purged, too.';
    this.#dialog.showModal();
  }

  #start(): void {
    if (this.#asked === undefined) return;
    const { selection, count } = this.#asked;
    if (this.#pending !== undefined) void this.#send(this.#pending);
    this.#pending = selection;
    this.#sendAt = performance.now() + UNDO_MS;
    this.#say(
      `${formatTasks(count)} will be purged in ${UNDO_MS / 1_000} seconds. Leaving this page keeps them.`,
      true,
    );
    this.#undo.focus();
    this.#timer = setTimeout(() => this.#end(), UNDO_MS);
    this.#countdown = setInterval(() => this.#count(), 250);
    this.#count();
    this.#options.onChange();
  }

  #end(): void {
    const selection = this.#pending;
    clearInterval(this.#countdown);
    if (selection === undefined) return;
    this.#say('Purging', false);
    void this.#send(selection).then((text) => {
      if (this.#pending !== selection) return;
      this.#pending = undefined;
      this.#finish(text);
    });
  }

  async #send(selection: LetterSelection): Promise<string> {
    clearTimeout(this.#timer);
    clearInterval(this.#countdown);
    try {
      const { count, remaining } = await this.#options.send(selection);
      const rest = remaining === 0 ? '' : ` ${formatTasks(remaining)} more can be purged with another purge.`;
      return `Purged ${formatTasks(count)}.${rest}`;
    } catch (error) {
      return `Not purged: ${(error as Error).message}`;
    }
  }

  #cancel(text: string): void {
    if (this.#pending === undefined) return;
    clearTimeout(this.#timer);
    clearInterval(this.#countdown);
    this.#pending = undefined;
    this.#finish(text);
  }

  #finish(text: string): void {
    this.#say(text, false);
    this.#timer = setTimeout(() => {
      this.#notice.hidden = true;
    }, RESULT_MS);
    this.#options.onChange();
  }

  #say(text: string, isUndoable: boolean): void {
    this.#notice.hidden = false;
    this.#undo.hidden = !isUndoable;
    part(this.#notice, 'purge-text', HTMLElement).textContent = text;
    part(this.#notice, 'purge-countdown', HTMLElement).textContent = '';
  }

  #count(): void {
    const seconds = Math.max(Math.ceil((this.#sendAt - performance.now()) / 1_000), 0);
    part(this.#notice, 'purge-countdown', HTMLElement).textContent = `${seconds} s`;
  }
}

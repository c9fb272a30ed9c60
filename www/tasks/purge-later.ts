import type { BulkResult, LetterSelection } from '../client/dead-letters.ts';
import { part } from '../shared/dom.ts';
import { formatTasks } from './amounts.ts';
import { contains } from './dead-letters.ts';

const UNDO_MS = 8_000;
const RESULT_MS = 6_000;

export interface PurgeLaterOptions {
  root: ParentNode;
  send(selection: LetterSelection): Promise<BulkResult>;
  onStart(): void;
  onEnd(): void;
}

interface Purge {
  selection: LetterSelection;
  count: number;
}

/** Purges dead letters {@link UNDO_MS} after the confirmation, unless the user undoes the purge or leaves the page. */
export class PurgeLater {
  readonly #dialog: HTMLDialogElement;
  readonly #notice: HTMLElement;
  readonly #undo: HTMLButtonElement;
  readonly #options: PurgeLaterOptions;
  #asked: Purge | undefined;
  /** Confirmed purge that the user can still undo. */
  #pending: Purge | undefined;
  /** Purges that have been sent but not answered. */
  readonly #sending = new Set<LetterSelection>();
  #sendAt = 0;
  #sendTimer: ReturnType<typeof setTimeout> | undefined;
  #hideTimer: ReturnType<typeof setTimeout> | undefined;
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

  /** Returns whether a confirmed purge contains a dead letter. */
  has(letter: { id: string; reason?: string }): boolean {
    if (this.#pending !== undefined && contains(this.#pending.selection, letter)) return true;
    return [...this.#sending].some((selection) => contains(selection, letter));
  }

  /** Asks the user to confirm a purge. @param count number of dead letters shown in the question */
  ask(selection: LetterSelection, count: number): void {
    this.#asked = { selection, count };
    part(this.#dialog, 'purge-question', HTMLElement).textContent = `Purge ${formatTasks(count)}?`;
    part(this.#dialog, 'purge-scope', HTMLElement).textContent =
      'ids' in selection ? '' : 'Tasks that fail until then and match are purged, too.';
    this.#dialog.showModal();
  }

  #start(): void {
    if (this.#asked === undefined) return;
    const replaced = this.#takePending();
    if (replaced !== undefined) void this.#send(replaced);
    this.#pending = this.#asked;
    this.#sendAt = performance.now() + UNDO_MS;
    this.#say(pendingText(this.#pending));
    this.#undo.focus();
    this.#sendTimer = setTimeout(() => this.#end(), UNDO_MS);
    this.#countdown = setInterval(() => this.#count(), 250);
    this.#options.onStart();
  }

  #end(): void {
    const purge = this.#takePending();
    if (purge === undefined) return;
    this.#say('Purging');
    void this.#send(purge);
  }

  #takePending(): Purge | undefined {
    const purge = this.#pending;
    this.#pending = undefined;
    clearTimeout(this.#sendTimer);
    clearInterval(this.#countdown);
    return purge;
  }

  async #send({ selection }: Purge): Promise<void> {
    this.#sending.add(selection);
    const text = await this.#purge(selection);
    this.#sending.delete(selection);
    this.#finish(text);
  }

  async #purge(selection: LetterSelection): Promise<string> {
    try {
      const { count, remaining } = await this.#options.send(selection);
      const rest = remaining === 0 ? '' : ` ${formatTasks(remaining)} more can be purged with another purge.`;
      return `Purged ${formatTasks(count)}.${rest}`;
    } catch (error) {
      return `Not purged: ${(error as Error).message}`;
    }
  }

  #cancel(text: string): void {
    if (this.#takePending() === undefined) return;
    this.#finish(this.#sending.size === 0 ? text : 'Undone. The purge before it is being sent.');
  }

  #finish(text: string): void {
    if (this.#pending !== undefined) {
      this.#say(`${text} ${pendingText(this.#pending)}`);
    } else {
      this.#say(text);
      this.#hideTimer = setTimeout(() => {
        this.#notice.hidden = true;
      }, RESULT_MS);
    }
    this.#options.onEnd();
  }

  #say(text: string): void {
    clearTimeout(this.#hideTimer);
    this.#notice.hidden = false;
    this.#undo.hidden = this.#pending === undefined;
    part(this.#notice, 'purge-text', HTMLElement).textContent = text;
    this.#count();
  }

  #count(): void {
    const seconds = Math.max(Math.ceil((this.#sendAt - performance.now()) / 1_000), 0);
    const countdown = part(this.#notice, 'purge-countdown', HTMLElement);
    countdown.textContent = this.#pending === undefined ? '' : `${seconds} s`;
  }
}

function pendingText({ count }: Purge): string {
  return `${formatTasks(count)} will be purged in ${UNDO_MS / 1_000} seconds. Leaving this page keeps them.`;
}

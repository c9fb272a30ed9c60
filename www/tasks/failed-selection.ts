import type { LetterSelection } from './dead-letters.ts';

/** Selection of failed tasks: some listed ones, or all that match the chosen reason. */
export class FailedSelection {
  readonly #keep: (id: string) => () => void;
  /** Selected ids, each with a function that lets the list remove the task again. */
  readonly #ids = new Map<string, () => void>();
  #isAllMatching = false;

  /** @param keep keeps a task in the list, and returns a function that lets the list remove it again */
  constructor(keep: (id: string) => () => void) {
    this.#keep = keep;
  }

  /** Whether all tasks that match the chosen reason are selected, listed or not. */
  get isAllMatching(): boolean {
    return this.#isAllMatching;
  }

  get size(): number {
    return this.#ids.size;
  }

  has(id: string): boolean {
    return this.#isAllMatching || this.#ids.has(id);
  }

  set(id: string, isSelected: boolean): void {
    if (isSelected === this.#ids.has(id)) return;
    if (isSelected) {
      this.#ids.set(id, this.#keep(id));
      return;
    }
    this.#ids.get(id)?.();
    this.#ids.delete(id);
  }

  /** Selects all matching tasks. */
  selectMatching(): void {
    this.clear();
    this.#isAllMatching = true;
  }

  /** Selects the listed tasks `ids` instead of all matching ones. */
  narrow(ids: readonly string[]): void {
    this.clear();
    for (const id of ids) this.set(id, true);
  }

  clear(): void {
    for (const release of this.#ids.values()) release();
    this.#ids.clear();
    this.#isAllMatching = false;
  }

  /** Deselects the tasks for which `isLeft` returns false. */
  retain(isLeft: (id: string) => boolean): void {
    for (const id of this.#ids.keys()) if (!isLeft(id)) this.set(id, false);
  }

  /** Returns the selection to send to the service. @param reason the chosen reason, or undefined for all reasons */
  toLetters(reason: string | undefined): LetterSelection {
    if (!this.#isAllMatching) return { ids: [...this.#ids.keys()] };
    return reason === undefined ? { all: true } : { reason };
  }
}

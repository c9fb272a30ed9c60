import type { LetterSelection } from '../client/dead-letters.ts';

/** Selection of failed tasks: either single tasks, or all tasks with the chosen reason. */
export class FailedSelection {
  readonly #keep: (id: string) => () => void;
  readonly #ids = new Map<string, () => void>();
  #isAllMatching = false;

  /** @param keep keeps a task in memory until the returned function is called */
  constructor(keep: (id: string) => () => void) {
    this.#keep = keep;
  }

  /** Whether all tasks with the chosen reason are selected, including tasks that are not in the list. */
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

  selectMatching(): void {
    this.clear();
    this.#isAllMatching = true;
  }

  narrow(ids: readonly string[]): void {
    this.clear();
    for (const id of ids) this.set(id, true);
  }

  clear(): void {
    for (const release of this.#ids.values()) release();
    this.#ids.clear();
    this.#isAllMatching = false;
  }

  retain(isLeft: (id: string) => boolean): void {
    for (const id of this.#ids.keys()) if (!isLeft(id)) this.set(id, false);
  }

  /** @param reason chosen failure reason, or undefined for all reasons */
  toLetters(reason: string | undefined): LetterSelection {
    if (!this.#isAllMatching) return { ids: [...this.#ids.keys()] };
    return reason === undefined ? { all: true } : { reason };
  }
}

/** Length in milliseconds of the period in which log lines are counted. */
const PERIOD_MS = 10_000;
/** Maximum number of log lines written per kind and period. */
const MAX_LINES = 20;
/** Maximum number of kinds per period. Additional kinds are counted as a single kind. */
const MAX_KINDS = 256;

interface Kind {
  admitted: number;
  suppressed: number;
  report: (suppressed: number) => void;
}

/** Limits repeated log lines. Each period admits the first lines of each kind, and suppresses and counts the rest. */
export class RepeatLimit {
  readonly #kinds = new Map<string, Kind>();
  #suppressed = 0;
  #timer: NodeJS.Timeout | undefined;

  get suppressed(): number {
    return this.#suppressed;
  }

  /**
   * Counts a line of kind `name`, and returns whether to write the line. Calls `report` after the period if lines were
   * suppressed.
   */
  admit(name: string, report: (suppressed: number) => void): boolean {
    // Unreferenced, because the timer must not keep the process alive.
    this.#timer ??= setTimeout(() => this.endPeriod(), PERIOD_MS).unref();
    const kind = this.#kind(name, report);
    if (kind.admitted < MAX_LINES) {
      kind.admitted += 1;
      return true;
    }
    kind.suppressed += 1;
    this.#suppressed += 1;
    return false;
  }

  /** Reports the suppressed lines of each kind and starts a new period. */
  endPeriod(): void {
    clearTimeout(this.#timer);
    this.#timer = undefined;
    const kinds = [...this.#kinds.values()];
    this.#kinds.clear();
    for (const { suppressed, report } of kinds) if (suppressed > 0) report(suppressed);
  }

  #kind(name: string, report: Kind['report']): Kind {
    const key = this.#kinds.has(name) || this.#kinds.size < MAX_KINDS - 1 ? name : '';
    const found = this.#kinds.get(key) ?? { admitted: 0, suppressed: 0, report };
    this.#kinds.set(key, found);
    return found;
  }
}

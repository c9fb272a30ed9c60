const PERIOD_MS = 10_000;
const MAX_LINES_PER_KIND = 20;
/** Maximum number of kinds of log lines per period. Lines of further kinds count as a single kind. */
const MAX_KINDS = 256;

interface Kind {
  admitted: number;
  suppressed: number;
  report: (suppressed: number) => void;
}

/** Limits repeated log lines: each period admits the first lines of each kind, and counts the suppressed rest. */
export class RepeatLimit {
  readonly #kinds = new Map<string, Kind>();
  #suppressed = 0;
  #timer: NodeJS.Timeout | undefined;

  get suppressed(): number {
    return this.#suppressed;
  }

  /** Returns whether to write a line of kind `name`. Reports suppressed lines at the end of the period. */
  admit(name: string, report: (suppressed: number) => void): boolean {
    // The timer must not keep the process alive.
    this.#timer ??= setTimeout(() => this.endPeriod(), PERIOD_MS).unref();
    const kind = this.#kind(name, report);
    if (kind.admitted < MAX_LINES_PER_KIND) {
      kind.admitted += 1;
      return true;
    }
    kind.suppressed += 1;
    this.#suppressed += 1;
    return false;
  }

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

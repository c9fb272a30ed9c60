const PERIOD_MS = 10_000;
const MAX_LINES_PER_KIND = 20;
/** Maximum number of kinds of log lines per period. Lines of further kinds count as a single kind. */
const MAX_KINDS = 256;

/** Limits repeated log lines: each period admits the first lines of each kind, and counts the suppressed rest. */
export class RepeatLimit {
  suppressed = 0;
  readonly #maxLines: number;
  readonly #periodMs: number;
  readonly #kinds = new Map<string, { lines: number; report: (suppressed: number) => void }>();
  #timer: NodeJS.Timeout | undefined;
  #endsAt = Number.NEGATIVE_INFINITY;

  constructor(maxLines = MAX_LINES_PER_KIND, periodMs = PERIOD_MS) {
    this.#maxLines = maxLines;
    this.#periodMs = periodMs;
  }

  /** Returns whether to write a line of kind `name`. Reports suppressed lines at the end of the period. */
  admit(name: string, report: (suppressed: number) => void): boolean {
    // Checks the clock, because a timer does not fire while its thread is blocked.
    if (performance.now() >= this.#endsAt) this.#startPeriod();
    const key = this.#kinds.has(name) || this.#kinds.size < MAX_KINDS - 1 ? name : '';
    const kind = this.#kinds.get(key) ?? { lines: 0, report };
    this.#kinds.set(key, kind);
    kind.lines += 1;
    if (kind.lines <= this.#maxLines) return true;
    this.suppressed += 1;
    return false;
  }

  endPeriod(): void {
    clearTimeout(this.#timer);
    this.#endsAt = Number.NEGATIVE_INFINITY;
    const kinds = [...this.#kinds.values()];
    this.#kinds.clear();
    for (const { lines, report } of kinds) if (lines > this.#maxLines) report(lines - this.#maxLines);
  }

  #startPeriod(): void {
    this.endPeriod();
    this.#endsAt = performance.now() + this.#periodMs;
    // The timer must not keep the process alive.
    this.#timer = setTimeout(() => this.endPeriod(), this.#periodMs).unref();
  }
}

import type { FoundFailure } from '../../db/task-store.ts';

/** Maximum number of characters of a reason that tell its cause. */
const CAUSE_LENGTH = 300;
const MAX_CAUSES = 100;
const MAX_REASONS = 10;
/** Number of past minutes of which each cause has the number of failures. */
const MINUTES = 30;

const QUOTED = /"[^"]*"|`[^`]*`|“[^”]*”|‘[^’]*’|(?<!\w)'[^']*'(?!\w)/g;
/** Word that may contain a number or an id. */
const WORD = /[\w-]+/g;
const VARIABLE = /\d|^[a-f]{8,}$/i;
const REPEATED = /…(?:[\s.,:/_-]*…)+/g;

/** Returns a reason without the parts that differ from task to task: `…` replaces numbers, ids and quoted parts. */
export function causeOf(reason: string | null): string {
  return (reason ?? '')
    .slice(0, CAUSE_LENGTH)
    .toWellFormed()
    .replaceAll(QUOTED, '…')
    .replaceAll(WORD, (word) => (VARIABLE.test(word) ? '…' : word))
    .replaceAll(REPEATED, '…');
}

interface Cause {
  cause: string;
  action: string | null;
  count: number;
  permanent: number;
  firstAt: number;
  lastAt: number;
  /** Number of failures in each of the last minutes, oldest first. */
  minutes: number[];
  /** Counts of the first exact reasons that were found. */
  reasons: Map<string, number>;
}

/** Groups dead letters by cause and action. Has at most as many groups as the bound of the dead letters allows. */
export class Causes {
  readonly #causes = new Map<string, Cause>();
  readonly #now: number;
  #total = 0;

  /** @param now milliseconds since the epoch, where the last minute ends */
  constructor(now: number) {
    this.#now = now;
  }

  add({ action, reason: given, failedAt, permanent }: FoundFailure): void {
    const reason = given ?? '';
    const cause = causeOf(reason);
    const key = JSON.stringify([action, cause]);
    let found = this.#causes.get(key);
    if (found === undefined) {
      const minutes = Array.from({ length: MINUTES }, () => 0);
      const times = { firstAt: failedAt, lastAt: failedAt, minutes };
      found = { cause, action, count: 0, permanent: 0, ...times, reasons: new Map() };
      this.#causes.set(key, found);
    }
    found.count += 1;
    found.permanent += Number(permanent);
    found.firstAt = Math.min(found.firstAt, failedAt);
    found.lastAt = Math.max(found.lastAt, failedAt);
    const minutesAgo = Math.max(0, Math.floor((this.#now - failedAt) / 60_000));
    if (minutesAgo < MINUTES) (found.minutes[MINUTES - 1 - minutesAgo] as number) += 1;
    const exact = found.reasons.get(reason);
    if (exact !== undefined || found.reasons.size < MAX_REASONS) found.reasons.set(reason, (exact ?? 0) + 1);
    this.#total += 1;
  }

  /** Returns the most frequent causes, and the number of all dead letters, in a response. */
  toJSON(): object {
    const causes = [...this.#causes.values()].sort((one, other) => other.count - one.count).slice(0, MAX_CAUSES);
    return { causes: causes.map(fieldsOf), total: this.#total };
  }
}

function fieldsOf({ cause, action, count, permanent, firstAt, lastAt, minutes, reasons }: Cause): object {
  const [first_at, last_at] = [firstAt, lastAt].map((ms) => Math.floor(ms / 1000));
  const exact = [...reasons].map(([reason, count]) => ({ reason, count }));
  return { cause, action, count, permanent, first_at, last_at, minutes, reasons: exact };
}

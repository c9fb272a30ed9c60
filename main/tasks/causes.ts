import type { FoundFailure } from '../../db/task-store.ts';

/** Maximum number of characters of a reason that tell its cause. */
const CAUSE_LENGTH = 300;
const MAX_GROUPS = 100;
/** Maximum number of exact reasons of a cause. */
const MAX_REASONS = 10;

const QUOTED = /"[^"]*"|`[^`]*`|“[^”]*”|‘[^’]*’|(?<!\w)'[^']*'(?!\w)/g;
/** Word that may contain a number or an id. */
const WORD = /[\w-]+/g;
const VARIABLE = /\d|^[a-f]{8,}$/i;
const REPEATED = /…(?:[\s.,:/_-]*…)+/g;

/** Returns a reason without the parts that differ from task to task: `…` replaces numbers, ids and quoted parts. */
export function causeOf(reason: string | null): string {
  return (reason ?? '')
    .slice(0, CAUSE_LENGTH)
    .replaceAll(QUOTED, '…')
    .replaceAll(WORD, (word) => (VARIABLE.test(word) ? '…' : word))
    .replaceAll(REPEATED, '…');
}

interface Group {
  count: number;
  /** Whether all failures were permanent. */
  permanent: boolean;
}

interface Cause extends Group {
  cause: string;
  action: string | null;
  firstAt: number;
  lastAt: number;
  /** Counts of the first exact reasons that were found. */
  reasons: Map<string, number>;
}

/** Groups dead letters by reason, and by cause and action. Has at most as many groups as the bound of the dead letters allows. */
export class Causes {
  readonly #causes = new Map<string, Cause>();
  readonly #reasons = new Map<string, Group>();
  #total = 0;

  add({ action, reason: given, failedAt, permanent }: FoundFailure): void {
    const reason = given ?? '';
    const cause = causeOf(reason);
    const times = { firstAt: failedAt, lastAt: failedAt, reasons: new Map() };
    const created = { cause, action, ...times, count: 0, permanent: true };
    const found = groupOf(this.#causes, JSON.stringify([action, cause]), created);
    for (const group of [found, groupOf(this.#reasons, reason, { count: 0, permanent: true })]) {
      group.count += 1;
      group.permanent &&= Boolean(permanent);
    }
    found.firstAt = Math.min(found.firstAt, failedAt);
    found.lastAt = Math.max(found.lastAt, failedAt);
    const exact = found.reasons.get(reason);
    if (exact !== undefined || found.reasons.size < MAX_REASONS) found.reasons.set(reason, (exact ?? 0) + 1);
    this.#total += 1;
  }

  /** Returns the most frequent causes and reasons, of which the reason null stands for all others, in a response. */
  toJSON(): object {
    const causes = mostFrequent(this.#causes.values());
    const reasons = [...this.#reasons].map(([reason, group]) => ({ reason, ...group }));
    const listed = mostFrequent(reasons);
    const others = reasons.filter((each) => !listed.includes(each));
    const count = others.reduce((sum, each) => sum + each.count, 0);
    const rest = { reason: null, count, permanent: others.every(({ permanent }) => permanent) };
    return { causes: causes.map(fieldsOf), reasons: count === 0 ? listed : [...listed, rest], total: this.#total };
  }
}

function groupOf<Value>(groups: Map<string, Value>, key: string, created: Value): Value {
  const group = groups.get(key) ?? created;
  groups.set(key, group);
  return group;
}

function mostFrequent<Each extends Group>(groups: Iterable<Each>): Each[] {
  return [...groups].sort((one, other) => other.count - one.count).slice(0, MAX_GROUPS);
}

function fieldsOf({ cause, action, count, permanent, firstAt, lastAt, reasons }: Cause): object {
  const [first_at, last_at] = [firstAt, lastAt].map((ms) => Math.floor(ms / 1000));
  const exact = [...reasons].map(([reason, count]) => ({ reason, count }));
  return { cause, action, count, permanent, first_at, last_at, reasons: exact };
}

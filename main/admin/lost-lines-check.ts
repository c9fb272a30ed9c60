import type { Check } from '../readiness-check.ts';

/** Duration of the warning after more lines were lost, the same as that of the alert `LogLinesLost`. */
const WARNING_MS = 15 * 60_000;

/**
 * Returns a check that warns from the call that finds more lost lines.
 *
 * @param lost returns the number of log lines lost since the start
 */
export function lostLinesCheck(lost: () => number, now = () => performance.now()): Check {
  let count = 0;
  let warnsUntil = Number.NEGATIVE_INFINITY;
  return () => {
    if (lost() > count) warnsUntil = now() + WARNING_MS;
    count = lost();
    if (now() >= warnsUntil) return undefined;
    return `${count} log lines were lost, because standard output did not take them`;
  };
}

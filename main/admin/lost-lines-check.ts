import type { Check } from '../readiness-check.ts';

/** How long readiness warns after more lines were lost. The alert `LogLinesLost` lasts as long. */
const WARNING_MS = 15 * 60_000;

/** @param lost returns the number of log lines lost since the start */
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

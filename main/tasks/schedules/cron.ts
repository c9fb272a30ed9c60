import { Cron } from 'croner';

/**
 * Reads a cron expression of five fields, or six with seconds, and the name of an IANA time zone. An expression that names
 * hours has each of its local times once a day: a time that is skipped in spring runs at the end of the gap, and of a time
 * that occurs twice in autumn only the first runs. An expression for every hour goes on by elapsed time.
 *
 * @throws {Error} if the expression is invalid
 */
export function cronTimes(expression: string, timeZone: string) {
  const fields = typeof expression === 'string' ? expression.trim().split(/\s+/) : [];
  const isCounted = fields.length === 5 || fields.length === 6;
  if (!isCounted || expression.length > 256) throw new Error(WRONG_FIELDS);
  // For an offset, croner does without `Intl`, in a tenth of the time.
  const zone = timeZone === 'UTC' ? { utcOffset: 0 } : { timezone: timeZone };
  const options = { ...zone, mode: '5-or-6-parts', fixedTimeRule: 'no-wildcard', paused: true } as const;
  try {
    // Checked as it was given, because `listOf` needs a right one.
    new Cron(expression, options);
  } catch (error) {
    for (const [index, field] of fields.entries()) checkField(field, index + FIELDS.length - fields.length);
    throw error;
  }
  const cron = new Cron(withLists(fields), options);
  return {
    /** Returns the first `count` times after `time`, in milliseconds since the epoch. */
    after: (time: number, count: number) => cron.nextRuns(count, new Date(time)).map((date) => date.getTime()),
    /** Yields the times up to `time`, newest first. Each takes long to compute. */
    *until(time: number): Generator<number> {
      // `previousRuns` excludes the time itself.
      let [last] = cron.previousRuns(1, new Date(time + 1));
      for (; last !== undefined; [last] = cron.previousRuns(1, last)) yield last.getTime();
    },
  };
}

const FIELDS = ['second', 'minute', 'hour', 'day of month', 'month', 'day of week'];
const WRONG_FIELDS = 'must have five fields, or six with seconds, in at most 256 characters';

/** Checks a field alone, because some errors of croner name neither the field nor the value that was given. */
function checkField(field: string, index: number): void {
  try {
    new Cron(FIELDS.map((_, each) => (each === index ? field : '*')).join(' '), { paused: true });
  } catch {
    throw new Error(`has a wrong ${FIELDS[index]}: ${field}`);
  }
}

/** Replaces wildcards and steps by lists unless the hour is `*`, because croner takes them for elapsed time. */
function withLists(fields: readonly string[]): string {
  const hour = fields.length - 4;
  if (/^[*?](\/1)?$/.test(fields[hour] as string)) return fields.join(' ');
  return fields.map((field, index) => (index > hour ? field : listOf(field, index === hour ? 23 : 59))).join(' ');
}

function listOf(field: string, last: number): string {
  const parts = field.split(',').map((part) => {
    const [matched, from = 0, to = last, step = 1] = /^(?:[*?]|(\d+)-(\d+))(?:\/(\d+))?$/.exec(part) ?? [];
    const values: number[] = [];
    for (let value = Number(from); value <= Number(to); value += Number(step)) values.push(value);
    return matched === undefined ? part : values.join();
  });
  return parts.join();
}

import type { Message } from '../../db/task-store.ts';

export type OptionError = 'invalidDelay' | 'invalidRunAt' | 'delayAndRunAt' | 'invalidPriority';

type Options = Pick<Message, 'priority' | 'runAt'>;

const LATEST_SECONDS = 366 * 24 * 60 * 60;
const OLDEST_SECONDS = 60;

const ISO_TIME = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:\d\d)$/;

/**
 * Reads the fields `delay`, `run_at` and `priority` of a submission.
 *
 * @param now milliseconds since the epoch
 */
export function submissionOptions(body: Record<string, unknown>, now: number): Options | { error: OptionError } {
  const { delay, run_at, priority } = body;
  if (delay !== undefined && run_at !== undefined) return { error: 'delayAndRunAt' };
  if (priority !== undefined && !isNumberWithin(priority, 1, 5, Number.isInteger)) return { error: 'invalidPriority' };
  let runAt: number | undefined;
  if (delay !== undefined) {
    if (!isNumberWithin(delay, 0, LATEST_SECONDS)) return { error: 'invalidDelay' };
    runAt = Math.ceil(now + delay * 1000);
  }
  if (run_at !== undefined) {
    const seconds = typeof run_at === 'string' ? secondsOf(run_at) : run_at;
    const isNear = isNumberWithin(seconds, now / 1000 - OLDEST_SECONDS, now / 1000 + LATEST_SECONDS);
    if (!isNear) return { error: 'invalidRunAt' };
    runAt = Math.round(seconds * 1000);
  }
  return { ...(priority !== undefined && { priority }), ...(runAt !== undefined && runAt > now && { runAt }) };
}

function isNumberWithin(value: unknown, min: number, max: number, test = Number.isFinite): value is number {
  return typeof value === 'number' && test(value) && value >= min && value <= max;
}

/** Returns Unix seconds, or undefined if the text is no ISO 8601 time with an offset. */
function secondsOf(text: string): number | undefined {
  const [matched, year, month, day] = ISO_TIME.exec(text)?.map(Number) ?? [];
  // `Date.parse` accepts 30 February.
  const exists = matched !== undefined && new Date(Date.UTC(year ?? 0, (month ?? 0) - 1, day)).getUTCDate() === day;
  const ms = exists ? Date.parse(text) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms / 1000;
}

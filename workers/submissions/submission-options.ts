import type { Message } from '../../db/task-store.ts';
import { editsBetween } from '../shared/nearest-names.ts';
import { readCallbackUrl } from './callback-url.ts';

export type OptionError =
  | 'invalidDelay'
  | 'invalidRunAt'
  | 'delayAndRunAt'
  | 'invalidPriority'
  | 'invalidLimitKey'
  | 'invalidCallbackUrl';

/** First field of an option, or of a task's data, that is wrong. */
export interface WrongField {
  /** JSON Pointer of the field within the data. Empty for the data itself. */
  path: string;
  detail: string;
}

type Options = Pick<Message, 'priority' | 'runAt' | 'limitKey' | 'callbackUrl'>;

interface OptionRefusal {
  error: OptionError;
  field?: WrongField;
}

const LATEST_SECONDS = 366 * 24 * 60 * 60;
const OLDEST_SECONDS = 60;
/** With a key, because the same submission gets the same answer while the key lives. */
const OLDEST_WITH_KEY_SECONDS = OLDEST_SECONDS + 24 * 60 * 60;

/** Fields of a submission beside `action` and `data`. */
const OPTIONS = ['delay', 'run_at', 'priority', 'limit_key', 'callback_url'] as const;
const KNOWN: ReadonlySet<string> = new Set(['action', 'data', ...OPTIONS]);
const NAMES = [...OPTIONS, 'idempotency_key'] as const;
const UNIT = /^(ms|millis|milliseconds|s|secs?|seconds?|mins?|minutes?|h|hrs?|hours?|d|days?|weeks?)$/;
/** Replacing one letter of a shorter name makes another word, such as `relay`. */
const REPLACEABLE_LENGTH = 6;

/**
 * Returns the first field that looks like an option or like `idempotency_key` and is none of `known`, and the name that
 * was meant. Other fields are ignored.
 */
export function misspeltOption(
  fields: object,
  known = KNOWN,
): { name: string; meant: (typeof NAMES)[number] } | undefined {
  for (const name of Object.keys(fields)) {
    if (known.has(name)) continue;
    const meant = NAMES.find((option) => isMisspelt(lettersOf(name), lettersOf(option)));
    if (meant !== undefined) return { name, meant };
  }
  return undefined;
}

function isMisspelt(name: string, option: string): boolean {
  if (name === option || (name.startsWith(option) && UNIT.test(name.slice(option.length)))) return true;
  if (Math.abs(name.length - option.length) > 1 || editsBetween(name, option) !== 1) return false;
  const isReplaced = name.length === option.length && [...name].sort().join() !== [...option].sort().join();
  return !isReplaced || option.length >= REPLACEABLE_LENGTH;
}

function lettersOf(name: string): string {
  return name.toLowerCase().replaceAll(/[-_ ]/g, '');
}

const ISO_TIME = /^(\d{4})-(\d\d)-(\d\d)T\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d(?::?\d\d)?)$/;

/** Reads the {@link OPTIONS} of a submission. `now` is in milliseconds since the epoch. */
export function submissionOptions(
  body: Record<string, unknown>,
  now: number,
  callbackHosts: readonly string[] = [],
  hasKey = false,
): Options | OptionRefusal {
  const { delay, run_at, priority, limit_key, callback_url } = body;
  if (delay !== undefined && run_at !== undefined) return { error: 'delayAndRunAt' };
  if (priority !== undefined && !isNumberWithin(priority, 1, 5, Number.isInteger)) return { error: 'invalidPriority' };
  if (limit_key !== undefined && !isLimitKey(limit_key)) return { error: 'invalidLimitKey' };
  const callback = callback_url === undefined ? undefined : readCallbackUrl(callback_url, callbackHosts);
  if (callback !== undefined && 'wrong' in callback)
    return { error: 'invalidCallbackUrl', field: { path: '/callback_url', detail: callback.wrong } };
  let runAt: number | undefined;
  if (delay !== undefined) {
    if (!isNumberWithin(delay, 0, LATEST_SECONDS)) return { error: 'invalidDelay' };
    runAt = Math.ceil(now + delay * 1000);
  }
  if (run_at !== undefined) {
    const seconds = typeof run_at === 'string' ? secondsOf(run_at) : run_at;
    const oldest = now / 1000 - (hasKey ? OLDEST_WITH_KEY_SECONDS : OLDEST_SECONDS);
    const isNear = isNumberWithin(seconds, oldest, now / 1000 + LATEST_SECONDS);
    if (!isNear) return { error: 'invalidRunAt' };
    runAt = Math.round(seconds * 1000);
  }
  return {
    ...(priority !== undefined && { priority }),
    ...(runAt !== undefined && runAt > now && { runAt }),
    ...(limit_key !== undefined && { limitKey: limit_key }),
    ...(callback !== undefined && { callbackUrl: callback.url }),
  };
}

const LONGEST_KEY = 255;

function isLimitKey(value: unknown): value is string {
  // Half a surrogate pair has no UTF-8 form, so two such keys could become one.
  return typeof value === 'string' && value !== '' && value.length <= LONGEST_KEY && value.isWellFormed();
}

function isNumberWithin(value: unknown, min: number, max: number, test = Number.isFinite): value is number {
  return typeof value === 'number' && test(value) && value >= min && value <= max;
}

/** Returns Unix seconds, or undefined if the text is no ISO 8601 time with an offset. */
function secondsOf(text: string): number | undefined {
  const [matched, year, month, day] = ISO_TIME.exec(text)?.map(Number) ?? [];
  // `Date.parse` accepts 30 February.
  const exists = matched !== undefined && new Date(Date.UTC(year ?? 0, (month ?? 0) - 1, day)).getUTCDate() === day;
  // `Date.parse` requires the offset to have minutes after a colon.
  const complete = text.replace(/([+-]\d\d)(\d\d)?$/, (_, hours, minutes = '00') => `${hours}:${minutes}`);
  const ms = exists ? Date.parse(complete) : Number.NaN;
  return Number.isNaN(ms) ? undefined : ms / 1000;
}

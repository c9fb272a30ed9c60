import { signal } from '@preact/signals';

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const size = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
const [local, utc] = [undefined, 'UTC'].map((timeZone) => ({
  clock: new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium', timeZone }),
  date: new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone }),
  moment: new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long', timeZone }),
})) as [Formats, Formats];
type Formats = Record<'clock' | 'date' | 'moment', Intl.DateTimeFormat>;

/** Whether times are shown in UTC instead of the time zone of the browser. */
export const inUtc = signal(false);

/** Formats a count as `1,234`. */
export const formatCount = (count: number): string => whole.format(count);

/** Formats a count as `1 task` or `1,234 tasks`. */
export const formatTasks = (count: number): string => `${formatCount(count)} ${count === 1 ? 'task' : 'tasks'}`;

/** Formats a rate as `0.4`, `12.5` or `1,234`. */
export const formatRate = (rate: number): string => (rate < 100 ? tenths : whole).format(rate);

/** Formats a size as `812 bytes`, `1.5 kB` or `2 MB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${size.format(bytes / 1_000)} kB` : `${size.format(bytes / 1_000_000)} MB`;
}

/** Formats a duration as `0.4 ms`, `45 ms`, `3.4 s`, `75 s`, `12 min` or `5.2 h`. */
export function formatSpan(milliseconds: number): string {
  if (milliseconds < 9.95) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1_000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 119.5) return `${Math.round(seconds)} s`;
  if (seconds < 7_170) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${size.format(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** Formats a time as `14:03:22.123` or `14:03:22`, with the date if it is not today. @param atMs since the epoch */
export function formatClock(atMs: number, isExact: boolean, now = new Date()): string {
  const { clock, date } = inUtc.value ? utc : local;
  const moment = new Date(atMs);
  const time = clock.format(moment) + (isExact ? `.${String(moment.getMilliseconds()).padStart(3, '0')}` : '');
  return date.format(moment) === date.format(now) ? time : `${date.format(moment)}, ${time}`;
}

/** Formats a time with its date and time zone: `Wednesday, 6 May 2026 at 09:08:07 CEST`. @param atMs since the epoch */
export const formatMoment = (atMs: number): string => (inUtc.value ? utc : local).moment.format(atMs);

/** Formats a duration as `0.12 s`, `3.4 s` or `75 s`. */
export function formatMeasured(milliseconds: number): string {
  const seconds = milliseconds / 1000;
  return `${seconds < 1 ? seconds.toFixed(2) : seconds < 10 ? seconds.toFixed(1) : Math.round(seconds)} s`;
}

/** Formats the time between two Unix times as `about 3 s`, or as an empty string if `processed` is null. */
export function formatBetween(created: number, processed: number | null): string {
  if (processed === null) return '';
  const seconds = processed - created;
  return seconds < 1 ? 'under 1 s' : `about ${seconds} s`;
}

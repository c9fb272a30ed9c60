import { computed, signal } from '@preact/signals';
import { parseJson } from './json-text.ts';

const whole = new Intl.NumberFormat('en-US', { maximumFractionDigits: 0 });
const tenths = new Intl.NumberFormat('en-US', { minimumFractionDigits: 1, maximumFractionDigits: 1 });
const size = new Intl.NumberFormat('en-US', { maximumFractionDigits: 1 });
const BIDI_CONTROLS = /[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]/g;

/** Whether times are shown in UTC instead of the time zone of the browser. */
export const inUtc = signal(false);

// Created on first use, because each takes several milliseconds.
const formats = computed(() => {
  const timeZone = inUtc.value ? 'UTC' : undefined;
  return {
    clock: new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium', timeZone }),
    date: new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeZone }),
    moment: new Intl.DateTimeFormat('en-GB', { dateStyle: 'full', timeStyle: 'long', timeZone }),
  };
});

/** Formats a count as `1,234`. */
export const formatCount = (count: number): string => whole.format(count);

/** Formats a count as `1 task` or `1,234 tasks`. */
export const formatTasks = (count: number): string => `${formatCount(count)} ${count === 1 ? 'task' : 'tasks'}`;

/** Formats a rate as `0`, `under 0.1`, `0.4`, `12` or `1,234`. */
export function formatRate(rate: number): string {
  if (rate > 0 && rate < 0.1) return 'under 0.1';
  return (rate === 0 || rate >= 9.95 ? whole : tenths).format(rate);
}

/** Formats a change per second as `+40/s`, `−3.2/s` or `±0/s`. */
export function formatChange(perSecond: number): string {
  const size = Math.abs(perSecond);
  if (size < 0.05) return '±0/s';
  return `${perSecond < 0 ? '−' : '+'}${formatRate(size)}/s`;
}

/** Formats a size as `812 bytes`, `1.5 kB` or `2 MB`. */
export function formatSize(bytes: number): string {
  if (bytes < 1_000) return `${bytes} bytes`;
  return bytes < 1_000_000 ? `${size.format(bytes / 1_000)} kB` : `${size.format(bytes / 1_000_000)} MB`;
}

/** Formats a duration as `< 1 ms`, `0.4 ms`, `45 ms`, `3.4 s`, `75 s`, `12 min` or `5.2 h`. */
export function formatSpan(milliseconds: number): string {
  // Whole milliseconds, rounded down.
  if (milliseconds === 0) return '< 1 ms';
  if (milliseconds < 9.95) return `${milliseconds.toFixed(1)} ms`;
  if (milliseconds < 999.5) return `${Math.round(milliseconds)} ms`;
  const seconds = milliseconds / 1_000;
  if (seconds < 9.95) return `${seconds.toFixed(1)} s`;
  if (seconds < 119.5) return `${Math.round(seconds)} s`;
  if (seconds < 7_170) return `${Math.round(seconds / 60)} min`;
  if (seconds < 172_800) return `${size.format(seconds / 3_600)} h`;
  return `${Math.round(seconds / 86_400)} d`;
}

/** Formats the time until a task is due as `in 545 ms`, `in 3.2 s` or `now`. @param dueMs since the epoch, like `nowMs` */
export function formatDue(dueMs: number | undefined, nowMs: number): string {
  if (dueMs === undefined) return '';
  return dueMs <= nowMs ? 'now' : `in ${formatSpan(dueMs - nowMs)}`;
}

/** Formats a time as `14:03:22.123` or `14:03:22`, with the date if it is not today. @param atMs since the epoch */
export function formatClock(atMs: number, isExact: boolean, now = new Date()): string {
  const { clock, date } = formats.value;
  const moment = new Date(atMs);
  const time = clock.format(moment) + (isExact ? `.${String(moment.getMilliseconds()).padStart(3, '0')}` : '');
  return date.format(moment) === date.format(now) ? time : `${date.format(moment)}, ${time}`;
}

/** Formats a time as `14:03`, with the date if it is not today. @param atMs since the epoch */
export const formatMinute = (atMs: number): string => formatClock(atMs, false).slice(0, -':00'.length);

/** Formats a time with its date and time zone: `Wednesday, 6 May 2026 at 09:08:07 CEST`. @param atMs since the epoch */
export const formatMoment = (atMs: number): string => formats.value.moment.format(atMs);

/** Formats an age as `under 1 s`, `12 s`, `3 min` or `2 h`. */
export function formatAge(ms: number): string {
  const seconds = Math.floor(ms / 1000);
  if (seconds < 1) return 'under 1 s';
  if (seconds < 60) return `${seconds} s`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min` : `${Math.floor(seconds / 3600)} h`;
}

/** Escapes bidirectional control characters such as `\u202e`, which would change the visible order of the text. */
export function visibleText(text: string): string {
  return text.replace(BIDI_CONTROLS, (control) => `\\u${control.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

/** Returns the data of a payload as one line of JSON. The payload may be truncated. */
export function dataText(payload: string): string {
  const start = payload.indexOf('"data":');
  if (start < 0) return '';
  const isWhole = payload.endsWith('}');
  const text = payload.slice(start + '"data":'.length);
  return visibleText(isWhole ? text.replace(/,"created_at":\d+}$|}$/, '') : `${text}…`);
}

/** Returns the handler's output in a result as text. The result may be truncated. */
export function outputText(result: string | null): string {
  if (result === null) return '';
  const { output, isCut } = parseOutput(result);
  const text = typeof output === 'string' ? output : JSON.stringify(output);
  return visibleText(isCut ? `${text}…` : text);
}

function parseOutput(result: string): { output: unknown; isCut?: boolean } {
  const parsed = parseJson(result);
  if (parsed !== undefined) return { output: Object(parsed).output };
  const rest = result.replace(/^{"output":/, '');
  // A truncated string may end within an escape sequence.
  return { output: parseJson(`${rest.replace(/\\(u[0-9a-f]{0,3})?$/i, '')}"`) ?? rest, isCut: true };
}

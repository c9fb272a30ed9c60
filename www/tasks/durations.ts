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

const time = new Intl.DateTimeFormat('en-GB', { timeStyle: 'medium' });
const dateAndTime = new Intl.DateTimeFormat('en-GB', { dateStyle: 'medium', timeStyle: 'medium' });

/** Formats a Unix time as `14:03:22` in the user's time zone, with the date if it is not today. */
export function formatMoment(second: number, now = new Date()): string {
  const moment = new Date(second * 1000);
  return (moment.toDateString() === now.toDateString() ? time : dateAndTime).format(moment);
}

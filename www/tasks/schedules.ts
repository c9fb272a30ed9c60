import type { Schedule } from '../client/schedules.ts';

const CATCH_UP = { none: 'missed times do not run', one: '', all: 'all missed times run' };

/** Describes the settings of a schedule that differ from the defaults. */
export function settingsText({ priority, limit_key, catch_up, overlap }: Schedule): string {
  return [
    priority === 3 ? '' : `priority ${priority}`,
    limit_key === undefined ? '' : `key ${limit_key}`,
    CATCH_UP[catch_up],
    overlap === 'skip' ? 'skips a time while a task is unfinished' : '',
  ]
    .filter((text) => text !== '')
    .join(', ');
}

import type { Schedule } from '../client/schedules.ts';
import { formatClock } from './amounts.ts';
import { Refused, request } from './tasks-api.ts';

/** Requests all schedules. @throws {Refused | Unreachable} */
export async function listSchedules(): Promise<Schedule[]> {
  const { schedules } = await request('/schedules');
  return schedules;
}

/** Requests a schedule. Returns undefined if there is none of the name. @throws {Refused | Unreachable} */
export async function findSchedule(name: string): Promise<Schedule | undefined> {
  return request(pathOf(name)).catch((error) => {
    if (error instanceof Refused && error.status === 404) return undefined;
    throw error;
  });
}

/** Adds or replaces a schedule. @throws {Refused | Unreachable} */
export async function putSchedule(name: string, settings: object): Promise<void> {
  await request(pathOf(name), { method: 'PUT', body: JSON.stringify(settings) });
}

/** @throws {Refused | Unreachable} */
export async function deleteSchedule(name: string): Promise<void> {
  await request(pathOf(name), { method: 'DELETE' });
}

/** Makes a task of a schedule now. @returns the task's id @throws {Refused | Unreachable} */
export async function runSchedule(name: string): Promise<string> {
  const { id } = await request(`${pathOf(name)}/run`, { method: 'POST' });
  return id;
}

function pathOf(name: string): string {
  return `/schedules/${encodeURIComponent(name)}`;
}

/** Formats the next time of a schedule, or says why there is none. */
export function nextText({ next: [first], paused }: Schedule, now?: Date): string {
  if (first !== undefined) return `Next ${formatClock(first * 1000, false, now)}`;
  return paused ? 'Paused' : 'No further time';
}

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

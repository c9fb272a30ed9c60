import { NORMAL_PRIORITY } from '../../../db/task-store.ts';
import { draftOf, isDraft, type SubmissionCheck } from '../../../workers/submissions/parse-submission.ts';
import type { ScheduleDefinition } from '../../../workers/tasks/handlers-api.ts';
import { HttpError } from '../../http/errors.ts';
import { cronTimes } from './cron.ts';

export type CompleteDefinition = Required<Omit<ScheduleDefinition, 'limit_key' | 'callback_url'>> &
  Pick<ScheduleDefinition, 'limit_key' | 'callback_url'>;

/** Clients resolve the path segments `.` and `..`, so a name of dots could not be requested. */
export const SCHEDULE_NAME = /^(?!\.+$)[\w.-]{1,100}$/;
const WRONG_NAME = 'must have 1 to 100 of A-Z, a-z, 0-9, _, . and -, not only dots';
const NO_TIME_ZONE = 'must be an IANA time zone';
const CHOSEN = { catch_up: 'one', overlap: 'allow', paused: false };
const OPTIONAL = { limit_key: undefined, callback_url: undefined };
const DEFAULTS = { time_zone: 'UTC', data: {}, priority: NORMAL_PRIORITY, ...OPTIONAL, ...CHOSEN };
const CHOICES = { catch_up: ['none', 'one', 'all'], overlap: ['allow', 'skip'], paused: [true, false] };
/** Fields that an answer adds. Ignored, so that an answer can be changed and sent back. */
const ADDED = ['name', 'source', 'next', 'last_at', 'last_task'];

/** Reads and checks the settings of a schedule. @throws {HttpError} that names the wrong field */
export function readDefinition(
  name: string,
  fields: Readonly<Record<string, unknown>>,
  now: number,
  callbackHosts: readonly string[],
  check?: SubmissionCheck,
): CompleteDefinition {
  const refuse = (field: string, detail: string) => new HttpError('invalidSchedule', { fields: { field, detail } });
  if (!SCHEDULE_NAME.test(name)) throw refuse('name', WRONG_NAME);
  const { cron, action, ...given } = fields;
  const unknown = Object.keys(given).find((field) => !Object.hasOwn(DEFAULTS, field) && !ADDED.includes(field));
  if (unknown !== undefined) throw refuse(unknown.slice(0, 100), 'is unknown');
  const { time_zone, data, priority, limit_key, callback_url, catch_up, overlap, paused } = { ...DEFAULTS, ...given };
  // croner takes an empty text for the time zone of the process, and some versions of Node take offsets.
  if (typeof time_zone !== 'string' || !/^[a-z]/i.test(time_zone)) throw refuse('time_zone', NO_TIME_ZONE);
  for (const [field, value] of Object.entries({ catch_up, overlap, paused })) {
    const values: unknown[] = CHOICES[field as keyof typeof CHOICES];
    if (!values.includes(value)) throw refuse(field, `must be ${values.join(' or ')}`);
  }
  try {
    if (cronTimes(cron as string, time_zone).after(now, 1).length === 0) throw new Error('has no time');
  } catch (error) {
    const { message } = error as Error;
    if (/timezone/.test(message)) throw refuse('time_zone', NO_TIME_ZONE);
    throw refuse('cron', message);
  }
  const submission = { action, data, priority, limit_key, callback_url };
  const draft = draftOf(submission, { now, hasKey: false, callbackHosts }, check);
  if (!isDraft(draft)) throw new HttpError(draft.error, { fields: draft.field });
  const complete = { cron, time_zone, action, data, priority, catch_up, overlap, paused };
  const { callbackUrl } = draft.message;
  const optional = { ...(limit_key !== undefined && { limit_key }), ...(callbackUrl && { callback_url: callbackUrl }) };
  return { ...complete, ...optional } as CompleteDefinition;
}

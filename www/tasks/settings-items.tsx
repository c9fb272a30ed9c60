import type { ComponentChildren } from 'preact';
import { useState } from 'preact/hooks';
import type { ActionLimits, Limit } from '../client/limits.ts';
import type { Schedule, ScheduleSettings } from '../client/schedules.ts';
import { addressOf } from './address.ts';
import { FieldError, type FormField, parseData } from './fields.ts';
import { followLink } from './navigation.ts';
import { Time } from './parts.tsx';
import { client, found } from './service.ts';
import { type Act, ItemButton, type Settings } from './settings-list.tsx';
import { formatCount, visibleText } from './texts.ts';

const { schedules, limits } = client;

const PRIORITIES = { 1: '1, first', 2: '2', 3: '3, normal', 4: '4', 5: '5, last' };
const CATCH_UP = { none: 'Do not run', one: 'Run once', all: 'All run' };
const OVERLAP = { allow: 'Run', skip: 'Skip the time' };
const ACTIVITY = { false: 'Active', true: 'Paused' };

const isTrue = (text: string) => text === 'true';
const CRON_HINT = 'Minute, hour, day, month, day of the week; seconds may come first.';

export const SCHEDULES: Settings<Schedule> = {
  page: 'schedules',
  noun: 'schedule',
  key: 'name',
  fields: [
    { name: 'name', label: 'Name', hint: 'Up to 100 letters, digits, points, hyphens and underscores.' },
    { name: 'cron', label: 'Cron expression', hint: CRON_HINT },
    { name: 'time_zone', label: 'Time zone', initial: Intl.DateTimeFormat().resolvedOptions().timeZone },
    { name: 'action', label: 'Action' },
    { name: 'data', label: 'Data', hint: 'A JSON object.', rows: 3, initial: '{}', parse: parseData },
    { name: 'priority', label: 'Priority', choices: Object.entries(PRIORITIES), initial: '3', parse: Number },
    { name: 'limit_key', label: 'Limit key', hint: 'May be empty.' },
    { name: 'callback_url', label: 'Callback URL', hint: 'May be empty.' },
    { name: 'catch_up', label: 'Missed times', choices: Object.entries(CATCH_UP), initial: 'one' },
    { name: 'overlap', label: 'While a task is unfinished', choices: Object.entries(OVERLAP), initial: 'allow' },
    { name: 'paused', label: 'State', choices: Object.entries(ACTIVITY), initial: 'false', parse: isTrue },
  ],
  subject: 'the schedule',
  deleted: 'Tasks that it has made stay.',
  overridesModule: false,
  empty: 'There is no schedule.',
  hint: 'A schedule makes a task at each time of a cron expression. Make one',
  intervalMs: 5_000,
  read: () => schedules.list(),
  async put(name, settings, isNew) {
    if (isNew && (await found(schedules.get(name)))) throw new FieldError('name', 'A schedule has this name.');
    await schedules.put(name, settings as ScheduleSettings);
  },
  delete: schedules.delete,
  Cells(schedule) {
    const { cron, time_zone, action, data, last_at = 0, last_task } = schedule;
    const last = last_task && <TaskLink id={last_task} text={<Time at={last_at * 1000} />} />;
    const [first, ...later] = schedule.next;
    return (
      <>
        <p>
          <code>{visibleText(cron)}</code> <span class="quiet">{visibleText(time_zone)}</span>
        </p>
        <p>
          <bdi class="clamp">{visibleText(action)}</bdi>{' '}
          <bdi class="clamp quiet">{Object.keys(data).length > 0 && visibleText(JSON.stringify(data))}</bdi>{' '}
          <bdi class="clamp quiet">{visibleText(settingsText(schedule))}</bdi>
        </p>
        <div>
          {first === undefined ? (
            <p>{schedule.paused ? 'Paused' : 'No further time'}</p>
          ) : (
            <details>
              <summary>
                Next <Time at={first * 1000} />
              </summary>
              <ul data-part="later">
                {later.map((time) => (
                  <li key={time}>
                    <Time at={time * 1000} />
                  </li>
                ))}
              </ul>
            </details>
          )}
          <p class="quiet">
            {last ? 'Last ' : 'Has not run yet'}
            {last}
          </p>
        </div>
      </>
    );
  },
  Actions,
};

/** Describes the settings of a schedule that differ from the defaults. */
function settingsText({ priority, limit_key, catch_up, overlap }: Schedule): string {
  const missed = { none: 'missed times do not run', one: '', all: 'all missed times run' };
  return [
    priority !== 3 && `priority ${priority}`,
    limit_key !== undefined && `key ${limit_key}`,
    missed[catch_up],
    overlap === 'skip' && 'skips a time while a task is unfinished',
  ]
    .filter(Boolean)
    .join(', ');
}

function Actions({ item, act }: { item: Schedule; act: Act }) {
  const { name, paused, source } = item;
  /** State of the box until its change is sent and the list is read again. */
  const [isActive, setActive] = useState<boolean>();
  const run = async () => {
    const id = await schedules.run(name);
    return (
      <>
        Queued a task of {name}: <TaskLink id={id} text={id} />
      </>
    );
  };
  return (
    <>
      <label class="row tight">
        <input
          type="checkbox"
          aria-label={`Active: ${visibleText(name)}`}
          checked={isActive ?? !paused}
          disabled={source === 'module'}
          onChange={({ currentTarget }) => {
            setActive(currentTarget.checked);
            void act(() => setPaused(name, !currentTarget.checked)).then(() => setActive(undefined));
          }}
        />{' '}
        Active
      </label>
      <ItemButton label="Run now" of={name} onClick={() => act(run)} />
    </>
  );
}

async function setPaused(name: string, paused: boolean): Promise<string> {
  // Read again, so that no change of another client is undone.
  const schedule = await found(schedules.get(name));
  if (schedule === undefined) return '';
  await schedules.put(name, { ...schedule, paused });
  return paused ? `Paused ${name}.` : `Resumed ${name}.`;
}

function TaskLink({ id, text }: { id: string; text: ComponentChildren }) {
  return (
    <a href={addressOf({ page: 'schedules', task: id })} onClick={followLink}>
      {text}
    </a>
  );
}

const seconds = new Intl.NumberFormat('en-US', { maximumFractionDigits: 3 });

// A text that is no number becomes null in JSON, which the service refuses with the name of the field.
const AMOUNTS: FormField[] = [
  { name: 'concurrency', label: 'Tasks at once', hint: '1 to 100,000' },
  { name: 'rate/count', label: 'Starts', hint: '1 to 10,000' },
  { name: 'rate/seconds', label: 'Period in seconds', hint: '0.001 to 86,400' },
  { name: 'per_key/concurrency', label: 'Tasks of each key at once' },
  { name: 'per_key/rate/count', label: 'Starts of each key' },
  { name: 'per_key/rate/seconds', label: 'Period of each key in seconds', hint: 'Empty fields limit nothing.' },
].map((field) => ({ ...field, parse: Number }));

export const LIMITS: Settings<ActionLimits> = {
  page: 'limits',
  noun: 'limits',
  key: 'action',
  fields: [{ name: 'action', label: 'Action' }, ...AMOUNTS],
  subject: 'the limits of',
  deleted: 'Those of the handlers module, if it has some, apply again.',
  overridesModule: true,
  empty: 'No action has limits.',
  hint: 'Limits bound how many tasks of an action, or of each of its keys, run at once and start in a period. Set them',
  intervalMs: 2_000,
  read: () => limits.list(),
  put: (action, settings) => limits.put(action, settings),
  delete: limits.delete,
  Cells: ({ per_key, running, next_start_at_ms: nextMs, ...limit }) => (
    <>
      <p>
        {formatCount(running)}
        {limit.concurrency !== undefined && ` of ${formatCount(limit.concurrency)}`} running{' '}
        <span class="quiet">
          {nextMs !== undefined && (
            <>
              next start <Time at={nextMs} />
            </>
          )}
        </span>
      </p>
      <p>{describeLimit(limit)}</p>
      <p>{per_key && `${describeLimit(per_key)} per key`}</p>
    </>
  ),
};

/** Describes a limit as `5 at once, 100 in 60 s`. */
function describeLimit({ concurrency, rate }: Limit): string {
  const perPeriod = rate && `${formatCount(rate.count)} in ${seconds.format(rate.seconds)} s`;
  return [concurrency !== undefined && `${formatCount(concurrency)} at once`, perPeriod].filter(Boolean).join(', ');
}

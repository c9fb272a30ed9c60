import type { Schedule, ScheduleSettings } from '../client/schedules.ts';
import { part } from '../shared/dom.ts';
import { addressOf } from './address.ts';
import { formatClock } from './amounts.ts';
import { confirmDeletion } from './confirmation.ts';
import { type EditDialog, type EditField, WrongInput } from './edit-dialog.ts';
import { nextText, settingsText } from './schedules.ts';
import { found, schedules } from './service.ts';
import { type Report, SettingsList } from './settings-list.ts';
import { dataText } from './summary-text.ts';
import { visibleText } from './visible-text.ts';

const INTERVAL_MS = 5_000;
const PRIORITIES = { 1: '1, first', 2: '2', 3: '3, normal', 4: '4', 5: '5, last' };

const FIELDS: readonly EditField[] = [
  { name: 'name', label: 'Name', hint: 'Up to 100 letters, digits, points, hyphens and underscores.' },
  {
    name: 'cron',
    label: 'Cron expression',
    hint: 'Minute, hour, day, month, day of the week; seconds may come first.',
  },
  { name: 'time_zone', label: 'Time zone' },
  { name: 'action', label: 'Action' },
  { name: 'data', label: 'Data', hint: 'A JSON object.', isMultiline: true },
  { name: 'priority', label: 'Priority', choices: PRIORITIES },
  { name: 'limit_key', label: 'Limit key', hint: 'May be empty.' },
  { name: 'catch_up', label: 'Missed times', choices: { none: 'Do not run', one: 'Run once', all: 'All run' } },
  { name: 'overlap', label: 'While a task is unfinished', choices: { allow: 'Run', skip: 'Skip the time' } },
  { name: 'paused', label: 'State', choices: { false: 'Active', true: 'Paused' } },
];

/** List of the schedules, which the user can pause, run, edit and delete. */
export class SchedulesView {
  readonly list: SettingsList<Schedule>;
  readonly #dialog: EditDialog;

  constructor(dialog: EditDialog) {
    this.#dialog = dialog;
    this.list = new SettingsList({
      host: part(document, 'schedules', HTMLElement),
      template: 'schedule',
      intervalMs: INTERVAL_MS,
      read: schedules.list,
      nameOf: ({ name }) => name,
      render: renderSchedule,
      act: (action, schedule) => this.#act(action, schedule),
    });
  }

  async #act(action: string, schedule: Schedule | undefined): Promise<Report> {
    if (action === 'new') return this.#edit();
    if (schedule === undefined) return [];
    const { name } = schedule;
    if (action === 'run') return ['Queued a task of ', name, ': ', taskLink(await schedules.run(name))];
    if (action === 'edit') return this.#edit(await found(schedules.get(name)));
    if (action === 'pause') return togglePause(schedule);
    if (!(await confirmDeletion(`Delete the schedule ${name}?`, 'Tasks that it has made stay.'))) return [];
    await schedules.delete(name);
    return [`Deleted ${name}.`];
  }

  async #edit(schedule?: Schedule): Promise<Report> {
    const { timeZone } = Intl.DateTimeFormat().resolvedOptions();
    const isNew = schedule === undefined;
    const values = schedule ?? { time_zone: timeZone, data: {}, priority: 3, catch_up: 'one', overlap: 'allow' };
    let name = schedule?.name;
    const isSaved = await this.#dialog.open({
      title: isNew ? 'New schedule' : 'Edit the schedule',
      fields: FIELDS,
      values: { paused: 'false', ...asTexts(values) },
      fixed: isNew ? undefined : 'name',
      async save(entered) {
        name = await save(entered, isNew);
      },
    });
    return isSaved ? [`Saved ${name}.`] : [];
  }
}

function asTexts(values: object): Record<string, string> {
  const text = (value: unknown) => (typeof value === 'object' ? JSON.stringify(value, null, 2) : String(value));
  return Object.fromEntries(Object.entries(values).map(([name, value]) => [name, text(value)]));
}

async function save({ name = '', data = '', ...texts }: Record<string, string>, isNew: boolean): Promise<string> {
  const { priority, limit_key, paused, ...settings } = texts;
  if (name === '') throw new WrongInput('name', 'Give the schedule a name.');
  const key = limit_key === '' ? {} : { limit_key };
  const body = { ...settings, ...key, data: parseData(data), priority: Number(priority), paused: paused === 'true' };
  if (isNew && (await found(schedules.get(name))) !== undefined)
    throw new WrongInput('name', 'A schedule has this name.');
  await schedules.put(name, body as unknown as ScheduleSettings);
  return name;
}

function parseData(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch (error) {
    throw new WrongInput('data', (error as Error).message);
  }
}

async function togglePause({ name, paused }: Schedule): Promise<Report> {
  // Read again, so that no change of another client is undone.
  const schedule = await found(schedules.get(name));
  if (schedule === undefined) return [];
  await schedules.put(name, { ...schedule, paused: !paused });
  return [paused ? `Resumed ${name}.` : `Paused ${name}.`];
}

function taskLink(id: string, text = id): HTMLElement {
  const link = document.createElement('a');
  link.href = addressOf({ page: 'schedules', task: id });
  link.dataset.link = '';
  link.textContent = text;
  return link;
}

function renderSchedule(row: HTMLElement, schedule: Schedule): void {
  const { cron, time_zone, action, data, next, last_at, last_task, paused, source } = schedule;
  const isOfModule = source === 'module';
  const write = (name: string, text: string) => {
    part(row, name, HTMLElement).textContent = visibleText(text);
  };
  write('cron', cron);
  write('time-zone', time_zone);
  write('action', action);
  write('data', Object.keys(data).length === 0 ? '' : dataText(`{"data":${JSON.stringify(data)}}`));
  write('settings-text', settingsText(schedule));
  const hasNext = next.length > 0;
  write('next', hasNext ? nextText(schedule) : '');
  write('no-next', hasNext ? '' : nextText(schedule));
  write(
    'later',
    next
      .slice(1)
      .map((time) => formatClock(time * 1000, false))
      .join('\n'),
  );
  part(row, 'next-times', HTMLElement).hidden = !hasNext;
  const last = part(row, 'last', HTMLElement);
  if (last_at === undefined || last_task === undefined) last.textContent = 'Has not run yet';
  else last.replaceChildren('Last ', taskLink(last_task, formatClock(last_at * 1000, false)));
  const active = part(row, 'active', HTMLInputElement);
  active.checked = !paused;
  active.disabled = isOfModule;
  part(row, 'of-module', HTMLElement).hidden = !isOfModule;
  for (const name of ['edit', 'delete']) part(row, name, HTMLElement).hidden = isOfModule;
}

import type { ActionLimits } from '../client/limits.ts';
import { part } from '../shared/dom.ts';
import { formatClock, formatCount } from './amounts.ts';
import { confirmDeletion } from './confirmation.ts';
import { type EditDialog, type EditField, WrongInput } from './edit-dialog.ts';
import { describeLimit } from './limits.ts';
import { limits } from './service.ts';
import { type Report, SettingsList } from './settings-list.ts';

const INTERVAL_MS = 2_000;

/** The names are the paths of the fields in the body of the request. */
const FIELDS: readonly EditField[] = [
  { name: 'action', label: 'Action' },
  { name: 'concurrency', label: 'Tasks at once', hint: '1 to 100,000' },
  { name: 'rate/count', label: 'Starts', hint: '1 to 10,000' },
  { name: 'rate/seconds', label: 'Period in seconds', hint: '0.001 to 86,400' },
  { name: 'per_key/concurrency', label: 'Tasks of each key at once' },
  { name: 'per_key/rate/count', label: 'Starts of each key' },
  { name: 'per_key/rate/seconds', label: 'Period of each key in seconds', hint: 'Empty fields limit nothing.' },
];

/** List of the limits of actions with their use, which the user can set and remove. */
export class LimitsView {
  readonly list: SettingsList<ActionLimits>;
  readonly #dialog: EditDialog;

  constructor(dialog: EditDialog) {
    this.#dialog = dialog;
    this.list = new SettingsList({
      host: part(document, 'limits', HTMLElement),
      template: 'limit',
      intervalMs: INTERVAL_MS,
      read: limits.list,
      nameOf: ({ action }) => action,
      render: renderLimits,
      act: (name, item) => this.#act(name, item),
    });
  }

  async #act(name: string, item: ActionLimits | undefined): Promise<Report> {
    if (name !== 'delete') return this.#edit(item);
    if (item === undefined) return [];
    const { action } = item;
    const consequence = 'Those of the handlers module, if it has some, apply again.';
    if (!(await confirmDeletion(`Delete the limits of ${action}?`, consequence))) return [];
    await limits.delete(action);
    return [`Deleted the limits of ${action}.`];
  }

  async #edit(item?: ActionLimits): Promise<Report> {
    let saved = '';
    const isSaved = await this.#dialog.open({
      title: item === undefined ? 'New limits' : 'Edit the limits',
      fields: FIELDS,
      values: item === undefined ? {} : textsOf(item),
      fixed: item === undefined ? undefined : 'action',
      async save({ action = '', ...texts }) {
        if (action === '') throw new WrongInput('action', 'Name the action.');
        await limits.put(action, limitsFrom(texts));
        saved = action;
      },
    });
    return isSaved ? [`Saved the limits of ${saved}.`] : [];
  }
}

/** Returns the values of the fields of an object, and of the objects in it, by path: `{ 'rate/count': '5' }`. */
function textsOf(value: object, prefix = ''): Record<string, string> {
  const entries = Object.entries(value).flatMap(([name, inner]) =>
    typeof inner === 'object' ? Object.entries(textsOf(inner, `${prefix}${name}/`)) : [[prefix + name, String(inner)]],
  );
  return Object.fromEntries(entries);
}

/** Returns the body of a request from the texts of its fields by path. Empty fields are left out. */
export function limitsFrom(texts: Readonly<Record<string, string>>): object {
  const limits = {};
  for (const [path, text] of Object.entries(texts)) {
    if (text.trim() === '') continue;
    const names = path.split('/');
    const last = names.pop() as string;
    let parent: Record<string, unknown> = limits;
    for (const name of names) {
      parent[name] ??= {};
      parent = parent[name] as Record<string, unknown>;
    }
    // A text that is no number becomes null, which the service refuses with the name of the field.
    parent[last] = Number(text);
  }
  return limits;
}

function renderLimits(row: HTMLElement, limits: ActionLimits): void {
  const { per_key, concurrency, running, next_start_at_ms, source } = limits;
  const write = (name: string, text: string) => {
    part(row, name, HTMLElement).textContent = text;
  };
  write('own', describeLimit(limits));
  write('per-key', per_key === undefined ? '' : `${describeLimit(per_key)} per key`);
  write(
    'running',
    `${formatCount(running)}${concurrency === undefined ? '' : ` of ${formatCount(concurrency)}`} running`,
  );
  write('next-start', next_start_at_ms === undefined ? '' : `next start ${formatClock(next_start_at_ms, false)}`);
  part(row, 'of-module', HTMLElement).hidden = source !== 'module';
  part(row, 'delete', HTMLElement).hidden = source === 'module';
}
